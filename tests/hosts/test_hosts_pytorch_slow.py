"""More commands by which hosts meet, with unmodified PyTorch (see test_hosts_pytorch.py)."""

import unittest

import harness
from harness import Hosts, pytorch
from reducing import ReducingTest

harness.enter_namespaces()

C10D = ["--rdzv-backend=c10d", "--rdzv-endpoint=node1"]


class PyTorch(ReducingTest):
    @pytorch.with_each_torch
    def test_static_hosts_reduce_over_gloo(self, torch):
        with Hosts(3) as hosts:
            nodes = [self.start(torch, hosts, host, "--nnodes=3", "--nproc-per-node=2", f"--node-rank={rank}",
                                "--master-addr=node1") for rank, host in enumerate(hosts)]
            ranks = self.reduce(hosts, nodes, 6)
            self.assertEqual({rank.interface for rank in ranks}, {"the name"})
            self.assertEqual({rank.place for rank in ranks}, {"node1:29500"})
            self.assertEqual([(rank.host, rank.local_rank, rank.node) for rank in ranks],
                             [(f"node{node + 1}", local, node) for node in range(3) for local in range(2)])

    @pytorch.with_each_torch
    def test_gloo_gets_the_interface_with_c10d_and_without_a_default_route(self, torch):
        with Hosts(3, loopback_names=True, default_route=False) as hosts:
            nodes = [self.start(torch, hosts, host, "--nnodes=3", *C10D) for host in hosts]
            self.assertEqual({rank.interface for rank in self.reduce(hosts, nodes, 3)}, {"eth0"})

    @pytorch.with_each_torch
    def test_the_variables_of_an_elastic_kubeflow_job_alone_are_enough(self, torch):
        with Hosts(2) as hosts:
            for host in hosts:
                host.add_name("job-worker-0", hosts[0].addr)
            nodes = [self.start(torch, hosts, host, PET_NNODES="1:2", PET_NPROC_PER_NODE="2", PET_RDZV_BACKEND="c10d",
                                PET_RDZV_ENDPOINT="job-worker-0:23456", PET_RDZV_ID="job", PET_MAX_RESTARTS="3",
                                PET_RDZV_CONF="last_call_timeout=60") for host in hosts]
            ranks = self.reduce(hosts, nodes, 4)
            self.assertEqual({rank.host for rank in ranks}, {"node1", "node2"})

    @pytorch.with_each_torch
    def test_several_agents_of_one_host_reduce_over_gloo(self, torch):
        commands = {"c10d": lambda _: ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:29400"],
                    "static": lambda rank: [f"--node-rank={rank}", "--master-addr=127.0.0.1"]}
        for name, options in commands.items():
            with self.subTest(name), Hosts(1) as hosts:
                nodes = [self.start(torch, hosts, hosts[0], "--nnodes=3", *options(rank)) for rank in range(3)]
                ranks = self.reduce(hosts, nodes, 3)
                self.assertEqual([rank.node for rank in ranks], [0, 1, 2])


if __name__ == "__main__":
    unittest.main()
