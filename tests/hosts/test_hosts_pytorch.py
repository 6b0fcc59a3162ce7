"""Unmodified PyTorch over several hosts; skipped where no Python has torch (see ../pytorch/harness.py)."""

import re
import unittest

import harness
from harness import WORKERS, Hosts, HostsTest, pytorch

harness.enter_namespaces()


class PyTorch(HostsTest):
    def check_all_reduce(self, torch, options, size=1, **kind):
        with Hosts(3, **kind) as hosts:
            environment = {name: value for name, value in torch.environment().items()
                           if name in ("PYTHON_EXEC", "USE_LIBUV", "ASAN_OPTIONS")}
            words = [word for word in torch.ddprun() if word != harness.BIN / "ddprun"]
            nodes = [hosts.ddprun(host, *words, "--nnodes=3", f"--nproc-per-node={size}", *options(rank),
                                  WORKERS / "all_reduce.py", **environment) for rank, host in enumerate(hosts)]
            self.finish(hosts, nodes, 100)
            lines = sorted(line for node in nodes for line in re.findall(r"rank \d of \d: sum .*", node.out))
            world = 3 * size
            total = world * (world - 1) // 2
            self.assertEqual([line.split(" at ")[0] for line in lines],
                             [f"rank {rank} of {world}: sum {total}" for rank in range(world)], "\n".join(map(str, nodes)))
            self.assertEqual(len({re.search(r"at (\S+),", line)[1] for line in lines}), 1, lines)
            return {re.search(r"gloo by (.*)", line)[1] for line in lines}

    def c10d(self, _):
        return ["--rdzv-backend=c10d", "--rdzv-endpoint=node1"]

    def static(self, rank):
        return [f"--node-rank={rank}", "--master-addr=node1"]

    @pytorch.with_each_torch
    def test_hosts_with_the_c10d_rendezvous_reduce_over_gloo(self, torch):
        self.assertEqual(self.check_all_reduce(torch, self.c10d, size=2), {"the name"})

    @pytorch.with_each_torch
    def test_static_hosts_reduce_over_gloo(self, torch):
        self.assertEqual(self.check_all_reduce(torch, self.static), {"the name"})

    @pytorch.with_each_torch
    def test_gloo_gets_the_interface_where_static_hosts_take_their_own_names_for_loopback(self, torch):
        self.assertEqual(self.check_all_reduce(torch, self.static, loopback_names=True), {"eth0"})

    @pytorch.with_each_torch
    def test_so_it_does_with_the_c10d_rendezvous_and_without_a_default_route(self, torch):
        self.assertEqual(self.check_all_reduce(torch, self.c10d, loopback_names=True, default_route=False), {"eth0"})


if __name__ == "__main__":
    unittest.main()
