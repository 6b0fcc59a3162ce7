"""Jobs of unmodified PyTorch that sum their ranks over gloo (workers/all_reduce.py), and what they must have printed."""

import collections
import re

import harness
from harness import WORKERS, HostsTest

Rank = collections.namedtuple("Rank", "rank size local_rank node nodes host place interface")
LINE = re.compile(r"rank (\d+) of (\d+): sum (\d+), local rank (\d+) of node (\d+)/(\d+) on (\S+), at (\S+), gloo by (.*)")


class ReducingTest(HostsTest):
    def start(self, torch, hosts, host, *options, script="all_reduce.py", arguments=(), **variables):
        kept = {name: value for name, value in torch.environment().items()
                if name in ("PYTHON_EXEC", "USE_LIBUV", "ASAN_OPTIONS")}
        words = [word for word in torch.ddprun() if word != harness.BIN / "ddprun"]
        return hosts.ddprun(host, *words, *options, WORKERS / script, *arguments, **kept, **variables)

    def ranks(self, nodes, size):
        """The ranks of the round of that size, in order; each must have the right sum."""
        everything = "\n".join(map(str, nodes))
        found = []
        for line in "".join(node.out for node in nodes).splitlines():
            match = LINE.search(line)
            if match is None or int(match[2]) != size:
                continue
            rank, _, total, *places = (int(match[i]) for i in range(1, 7))
            self.assertEqual(total, size * (size - 1) // 2, everything)
            found.append(Rank(rank, size, *places, *match.groups()[6:]))
        found.sort()
        self.assertEqual([rank.rank for rank in found], list(range(size)), everything)
        self.assertEqual(len({rank.place for rank in found}), 1, everything)
        return found

    def reduce(self, hosts, nodes, size):
        """The same, of nodes that all end with success."""
        self.finish(hosts, nodes, 100)
        return self.ranks(nodes, size)
