"""The commands by which several hosts meet: torchrun's c10d and static, and torch.distributed.launch's."""

import time
import unittest

import harness
from harness import JOB_WORKER, MEETING_WORKER, Hosts, HostsTest

harness.enter_namespaces()

ALL_SIX = [f"{rank}/6" for rank in range(6)]
C10D = ["--nnodes=3", "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node1:29400", MEETING_WORKER]


class Meeting(HostsTest):
    def check_c10d(self, hosts):
        nodes = [hosts.ddprun(host, *C10D) for host in hosts]
        self.finish(hosts, nodes)
        ranks, places = self.met(nodes)
        self.assertEqual(ranks, ALL_SIX, nodes[0])
        self.assertEqual(len(places), 1, places)
        return places.pop()

    def test_one_line_for_all_hosts_forms_one_job(self):
        with Hosts(3) as hosts:
            self.check_c10d(hosts)

    def test_one_line_for_all_hosts_forms_one_job_where_each_takes_its_own_name_for_loopback(self):
        with Hosts(3, loopback_names=True) as hosts:
            self.assertFalse(self.check_c10d(hosts).startswith("127."))

    def test_hosts_without_a_default_route_meet_too(self):
        with Hosts(3, loopback_names=True, default_route=False) as hosts:
            self.assertFalse(self.check_c10d(hosts).startswith("127."))

    def test_static_hosts_meet_at_master_addr_and_master_port_as_they_were_typed(self):
        for loopback_names in (False, True):
            with self.subTest(loopback_names=loopback_names), Hosts(3, loopback_names) as hosts:
                nodes = [hosts.ddprun(host, "--nnodes=3", "--nproc-per-node=2", f"--node-rank={rank}",
                                      "--master-addr=node1", "--master-port=29511", MEETING_WORKER)
                         for rank, host in enumerate(hosts)]
                self.finish(hosts, nodes)
                self.assertEqual(self.met(nodes), (ALL_SIX, {"node1:29511"}), nodes[0])
                for rank, node in enumerate(nodes):
                    self.assertEqual(node.out.count(f" node={rank}/3 "), 2, node)

    def test_the_options_of_torch_distributed_launch_work(self):
        with Hosts(2) as hosts:
            nodes = [hosts.ddprun(host, "--nnodes", "2", "--node_rank", rank, "--master_addr", hosts[0].addr,
                                  "--master_port", "1234", "--nproc_per_node", "1", MEETING_WORKER)
                     for rank, host in enumerate(hosts)]
            self.finish(hosts, nodes)
            self.assertEqual(self.met(nodes), (["0/2", "1/2"], {"192.168.77.1:1234"}), nodes[0])

    def test_the_variables_of_a_cluster_alone_are_enough(self):
        with Hosts(2) as hosts:
            nodes = [hosts.ddprun(host, MEETING_WORKER, PET_NNODES="2", PET_NPROC_PER_NODE="1", PET_NODE_RANK=str(rank),
                                  PET_MASTER_ADDR="node1", PET_MASTER_PORT="29500") for rank, host in enumerate(hosts)]
            self.finish(hosts, nodes)
            self.assertEqual(self.met(nodes), (["0/2", "1/2"], {"node1:29500"}), nodes[0])

    def test_workers_wait_for_the_look_up_of_their_hosts_own_name_that_decides_gloos_interface(self):
        with Hosts(2, name_delay=0.3) as hosts:
            nodes = [hosts.ddprun(host, "--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint={hosts[0].addr}", JOB_WORKER,
                                  "env", "GLOO_SOCKET_IFNAME") for host in hosts]
            self.finish(hosts, nodes)
            self.assertEqual([node.out for node in nodes], ["GLOO_SOCKET_IFNAME=eth0\n"] * 2)

    def test_a_name_may_lead_elsewhere_when_its_agents_start(self):
        with Hosts(2) as hosts:
            for host in hosts:  # a pod's address of before
                host.add_name("job-0.job", "192.168.77.99")
            nodes = [hosts.ddprun(host, "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=job-0.job", MEETING_WORKER)
                     for host in hosts]
            time.sleep(1)
            for host in hosts:
                host.move_name("job-0.job", hosts[0].addr)
            self.finish(hosts, nodes)
            self.assertEqual(self.met(nodes)[0], ["0/2", "1/2"])

    def test_a_name_may_resolve_later_than_its_agents_start(self):
        with Hosts(2) as hosts:
            nodes = [hosts.ddprun(host, "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=job-0.job", MEETING_WORKER)
                     for host in hosts]
            time.sleep(3)
            hosts[0].add_name("job-0.job", hosts[0].addr)
            time.sleep(0.5)
            hosts[1].add_name("job-0.job", hosts[0].addr)
            self.finish(hosts, nodes)
            self.assertEqual(self.met(nodes)[0], ["0/2", "1/2"])
            for node in nodes:
                self.assertIn("cannot look up job-0.job", node.err.replace("\n", " "), node)


if __name__ == "__main__":
    unittest.main()
