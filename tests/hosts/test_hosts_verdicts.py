"""Staged failures over three hosts with two workers each: which worker, or which host, the report names as the culprit.

The wall clocks are an hour apart, and on one host's link each frame takes 50 ms each way. Files have this machine's clock, as
if they were on a file server. The workers wait for each other, so no test depends on how fast the machine is.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import sys
import unittest

import harness
import slow_link
from harness import BUILD, JOB_WORKER, WORKERS, Hosts, HostsTest
from rounds import CONF
from slow_link import SlowLink

harness.enter_namespaces()

SEED = int(os.environ.get("DDPRUN_TEST_SEED", "0")) or random.randrange(1, 1 << 30)
CLOCK = BUILD / "tests" / "libshifted_clock.so"
HOUR = 3600
DELAY = 0.05  # each way
RANKS = range(6)
LOSSES = [("ConnectionResetError", "[Errno 104] Connection reset by peer"), ("BrokenPipeError", "[Errno 32] Broken pipe"),
          ("RuntimeError", "[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [192.168.77.1]:41234"),
          ("RuntimeError", "NCCL error: remote process exited or there was a network error")]


class Stage:
    """One job. `part` has what ranks do; one that is not in it loses the connection after the culprit failed.

    `ranks`: those that run staged.py and wait for each other. `programs`: what else the hosts run.
    """

    def __init__(self, hosts, chance, part, options=(), programs=None, ranks=RANKS):
        self.folder = hosts.folder / "stage"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.clocks = chance.sample([-HOUR, 0, HOUR], 3)
        self.ranks = ranks
        parts = {rank: ("lose the connection", chance.uniform(0.02, 0.2), chance.choice(["heeds the stop", "goes on"]),
                         *chance.choice(LOSSES)) for rank in RANKS} | part
        staged = json.dumps({"folder": str(self.folder), "ranks": list(ranks), "part": [parts[rank] for rank in RANKS]})
        self.ends_late = any(words[0].endswith("end late") for words in parts.values())
        self.nodes = []
        for rank, (host, clock) in enumerate(zip(hosts, self.clocks)):
            words = programs[rank] if programs else [sys.executable, WORKERS / "staged.py"]
            self.nodes.append(hosts.ddprun(
                host, "--nnodes=3", "--nproc-per-node=2", f"--node-rank={rank}", "--rdzv-backend=c10d",
                "--rdzv-endpoint=node1", "--max-node-changes=0", "--output=pipe", "--grace-period=2",
                f"--report={self.folder / f'report.{host.name}'}", *options, *words,
                TMPDIR=str(host.folder), LD_PRELOAD=str(CLOCK), SHIFTED_CLOCK=str(clock), STAGED=staged,
                # A runtime of a sanitizer insists on being the first library.
                ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"))

    def __str__(self):
        return "\n".join(map(str, [f"clocks {self.clocks}", *self.nodes]))

    def wait_for_start(self):
        harness.until(lambda: all((self.folder / f"up{rank}").exists() for rank in self.ranks), 40, lambda: f"a start\n{self}")

    def tell(self, name):
        (self.folder / name).touch()

    def report(self):
        """The one for all nodes. The files of the others stay empty."""
        written = [file for file in self.folder.glob("report.*") if file.stat().st_size > 0]
        if [file.name for file in written] != ["report.node1"]:
            raise AssertionError(f"reports: {written}\n{self}")
        return json.loads(written[0].read_text(encoding="utf-8"))

    def clock_of(self, rank):
        return float((self.folder / f"clock{rank}").read_text(encoding="utf-8"))


class Verdicts(HostsTest):
    """The slow link is node3's, if nothing else is said."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        missing = slow_link.why_not()
        if missing is not None:
            raise unittest.SkipTest(missing)

    def check_clocks(self, stage):
        """That the workers' clocks were apart."""
        print(f"seed {SEED}, clocks ahead by {stage.clocks} s", file=sys.stderr)
        for rank in stage.ranks:
            apart = stage.clock_of(rank) - stage.clock_of(stage.ranks[0])
            meant = stage.clocks[rank // 2] - stage.clocks[stage.ranks[0] // 2]
            self.assertLess(abs(apart - meant), HOUR / 2, f"rank {rank}")

    def check(self, hosts, stage, culprit, evidence, status):
        self.finish(hosts, stage.nodes, limit=40, status=status)
        self.check_clocks(stage)
        report = stage.report()
        everything = f"{json.dumps(report, indent=1)}\n{stage}"
        found = report["culprit"]
        self.assertIsNotNone(found, everything)
        self.assertEqual((found["rank"], found["host"], found["evidence"]),
                         (culprit, f"node{culprit // 2 + 1}", evidence), everything)
        victims = [worker["rank"] for worker in report["victims"]]
        self.assertNotIn(culprit, victims, everything)
        if stage.ends_late:
            self.assertTrue(victims, everything)
        print(f"culprit rank {culprit}, victims {victims}, stopped because {report['rounds'][-1]['end']}", file=sys.stderr)

    def check_each_host(self, part, evidence, status, others=None, options=(), slow=2, delay=DELAY, on=range(3)):
        """The culprit on each of the three hosts. `others` gives other workers' parts, by the chance and the culprit."""
        with Hosts(3) as hosts, SlowLink(hosts[slow], delay):
            for host in on:
                chance = random.Random(f"{SEED} {self.id()} {host}")
                culprit = 2 * host + chance.randrange(2)
                parts = {culprit: part} | (others(chance, culprit) if others else {})
                with self.subTest(culprit=culprit, seed=SEED):
                    self.check(hosts, Stage(hosts, chance, parts, options), culprit, evidence, status)

    def test_the_culprit_is_a_worker_that_exits(self):
        self.check_each_host(("exit",), "own_exit", 3)

    def test_the_culprit_is_a_worker_that_exits_while_the_link_of_the_rendezvous_is_slow(self):
        self.check_each_host(("exit",), "own_exit", 3, slow=0)

    def test_the_culprit_is_a_worker_that_exits_and_the_victims_of_which_are_heard_first(self):
        self.check_each_host(("exit",), "own_exit", 3, delay=0.3, on=[2])

    def test_the_culprit_is_a_worker_that_raises(self):
        self.check_each_host(("raise",), "exception_line", 1)

    def test_the_culprit_is_a_worker_that_leaves_an_error_file(self):
        self.check_each_host(("write an error file",), "error_file", 1)

    def test_the_culprit_is_a_worker_that_crashes(self):
        self.check_each_host(("get", signal.SIGSEGV), "fatal_signal", 139)

    def test_the_culprit_is_a_worker_that_is_killed(self):
        self.check_each_host(("get", signal.SIGKILL), "own_exit", 137)

    def test_the_culprit_is_a_worker_that_is_stopped(self):
        self.check_each_host(("get", signal.SIGSTOP), "hang", 1)

    def test_the_culprit_is_a_worker_that_hangs(self):

        def others(_, culprit):
            went_on = ("progress", str(JOB_WORKER), "progress", "5", "all-reduce", "sleep", "600")
            return {rank: went_on for rank in RANKS if rank != culprit}

        self.check_each_host(("progress", str(JOB_WORKER), "progress", "4", "data", "sleep", "600"), "hang", 1, others,
                             ["--progress-timeout=0.8"])

    def test_the_culprit_is_a_worker_that_raises_and_ends_after_its_victims(self):
        self.check_each_host(("raise and end late",), "exception_line", 3)

    def test_the_culprit_is_a_worker_that_leaves_an_error_file_and_ends_after_its_victims(self):
        self.check_each_host(("write an error file and end late",), "error_file", 3)

    def others_fail_later(self, chance, culprit):
        """One on another host, by itself; no words tell that it is later, only the clocks."""
        second = chance.choice([rank for rank in RANKS if rank // 2 != culprit // 2])
        return {rank: ("wait",) for rank in RANKS if rank != culprit} | {second: ("fail by itself", 0.5)}

    def test_the_culprit_is_a_worker_that_raises_and_ends_after_another_that_fails_by_itself(self):
        self.check_each_host(("raise and end late",), "exception_line", 3, self.others_fail_later)

    def test_the_culprit_is_a_worker_that_leaves_an_error_file_and_ends_after_another_that_fails_by_itself(self):
        self.check_each_host(("write an error file and end late",), "error_file", 3, self.others_fail_later)

    def test_the_culprit_is_a_worker_that_raises_into_a_file_and_ends_after_another_that_fails_by_itself(self):
        self.check_each_host(("raise and end late",), "exception_line", 3, self.others_fail_later, ["--redirects=2"])

    def test_the_culprit_is_the_first_of_workers_that_never_start(self):
        """Their victims fail as soon as they start, on the fast hosts before the slow one is told to start any."""
        with Hosts(3) as hosts, SlowLink(hosts[2], DELAY):
            for host in range(3):
                chance = random.Random(f"{SEED} {self.id()} {host}")
                with self.subTest(host=host, seed=SEED):
                    program = pathlib.Path(hosts[host].folder / "program")
                    program.write_text("#!/nonexistent/interpreter\n", encoding="utf-8")
                    program.chmod(0o755)
                    victim = ["/bin/sh", "-c", "echo 'ConnectionRefusedError: [Errno 111] Connection refused' >&2; exit 1"]
                    programs = [["--no-python", program] if other == host else victim for other in range(3)]
                    stage = Stage(hosts, chance, {}, programs=programs, ranks=[])
                    self.check(hosts, stage, 2 * host, "not_started", 126)

    def check_lost(self, lose, slow, signs):
        """node2 and node3 are lost, one in each job. node1 has the rendezvous."""
        for host in (1, 2):
            with Hosts(3) as hosts, SlowLink(hosts[slow], DELAY):
                chance = random.Random(f"{SEED} {self.id()} {host}")
                with self.subTest(lost=host, seed=SEED):
                    lost = [rank for rank in RANKS if rank // 2 == host]
                    stage = Stage(hosts, chance, {rank: ("wait",) for rank in lost}, [CONF])
                    stage.wait_for_start()
                    lose(hosts[host], stage.nodes[host])
                    stage.tell("failed")
                    stage.nodes[host].wait()
                    left = [node for rank, node in enumerate(stage.nodes) if rank != host]
                    self.finish(hosts, left, limit=40, status=69)
                    self.check_clocks(stage)
                    report = stage.report()
                    everything = f"{json.dumps(report, indent=1)}\n{stage}"
                    self.assertIsNone(report["culprit"], everything)
                    self.assertIsNotNone(report["lost_node"], everything)
                    found = [report["lost_node"][name] for name in ("host", "ranks")]
                    self.assertEqual(found, [f"node{host + 1}", lost], everything)
                    self.assertIn(report["lost_node"]["sign"], signs, everything)
                    print(f"lost: {report['reason']}", file=sys.stderr)

    def test_the_culprit_is_a_host_the_agent_of_which_is_killed(self):
        self.check_lost(lambda _, node: harness.kill(node.agent()), 2, ["ended"])

    def test_the_culprit_is_a_host_the_agent_and_warden_of_which_are_killed(self):

        def lose(_, node):
            agent = node.agent()
            harness.kill(node.process.pid)
            harness.kill(agent)

        self.check_lost(lose, 2, ["ended", "silent"])  # the kernel may reset its connection

    def test_the_culprit_is_a_host_that_loses_its_power(self):
        self.check_lost(lambda host, _: host.lose_power(), 2, ["silent"])

    def test_the_culprit_is_a_host_that_loses_its_power_while_the_link_of_the_rendezvous_is_slow(self):
        self.check_lost(lambda host, _: host.lose_power(), 0, ["silent"])


if __name__ == "__main__":
    unittest.main()
