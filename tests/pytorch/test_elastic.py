"""ddprun.elastic: a worker goes on when another one has failed. The agent is that of tests/support/fake_agent.py."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from elastic_job import PACKAGE, Record
from elastic_training import SIZE, STEPS, TrainingTest
from fake_agent import FakeAgent
from harness import FOREIGN, with_each_torch


class Job(unittest.TestCase):
    """Workers without PyTorch."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        kept = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
        self.environment = kept | {"PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}

    def agent(self, size, code, **more):
        script = self.folder / "worker.py"
        script.write_text("import os, sys, time\nfrom ddprun import elastic\n" + code, encoding="utf-8")
        return FakeAgent([sys.executable, script], size, self.environment, self.folder, **more)

    def wait_for(self, agent, *words, rank=0):
        """Until the worker has printed these, each as a line of its own."""
        end = time.monotonic() + 30
        while not set(words) <= set(agent.output(rank).splitlines()):
            self.assertLess(time.monotonic(), end, f"{words} are not in {agent.output(rank)!r}")
            self.assertIsNone(agent.workers[rank].process.poll(), agent.output(rank))
            agent.poll()

    def run_one(self, code, **more):
        """The lines of a worker whose agent only answers."""
        with self.agent(1, code, **more) as agent:
            self.assertEqual(agent.run(30), 0, agent.output(0))
            return agent.output(0).splitlines()


ONE_ROUND = """
for round in elastic.rounds():
    with round:
        round.check(1)
        print(round.rank, round.world_size, round.is_new, round.source_rank, round.interrupted, round.share(3))
print("end")
"""


class WithoutAgent(Job):
    def test_a_program_that_no_launcher_starts_has_one_round_as_rank_0_of_1(self):
        script = self.folder / "alone.py"
        script.write_text("from ddprun import elastic\n" + ONE_ROUND, encoding="utf-8")
        alone = subprocess.run([sys.executable, script], env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((alone.stdout.splitlines(), alone.returncode), (["0 1 True None False 3", "end"], 0), alone.stderr)

    def test_an_agent_that_is_older_or_refuses_leaves_one_round(self):
        for more in ({"features": ("status",)}, {"refuses": True}):
            with self.subTest(str(more)):
                self.assertEqual(self.run_one(ONE_ROUND, **more)[-2:], ["0 1 True None False 3", "end"])

    def test_a_child_of_a_worker_is_not_interrupted_and_leaves_its_connection_alone(self):
        code = """
import multiprocessing
def child(round):
    round.check(7)
    print("child", len(list(elastic.rounds())), flush=True)
for round in elastic.rounds():
    with round:
        if round.number == 1:
            break
        print("before", flush=True)
        while not round.interrupted:
            time.sleep(0.01)
        started = multiprocessing.get_context("fork").Process(target=child, args=(round,))
        started.start()
        started.join()
        round.check(5)
print("end")
"""
        with self.agent(1, code, restarts=1) as agent:
            self.wait_for(agent, "before")
            agent.interrupt()
            self.assertEqual(agent.run(30), 0, agent.output(0))
            self.assertEqual(agent.output(0).splitlines(), ["before", "child 1", "end"])
            self.assertEqual(agent.replaced, 0)
            self.assertIn("waits, step 5", "\n".join(agent.log))


class Interruptions(Job):
    def test_both_forms_of_the_loop_go_on_with_the_next_round_after_check_has_raised(self):
        train = """
def train(round):
    print(round.number, round.is_new, round.source_rank, os.environ.get("DDPRUN_SOURCE_RANK"), os.environ["DDPRUN_ROUND"], flush=True)
    for step in range(1000):
        round.check(step)
        if round.number == 1:
            return
        time.sleep(0.01)
"""
        forms = {
            "with": "for round in elastic.rounds():\n    with round:\n        train(round)\n",
            "except": "for round in elastic.rounds():\n    try:\n        train(round)\n    except elastic.Interrupted:\n        continue\n",
        }
        for form, loop in forms.items():
            for when in ("now", "step"):
                with self.subTest(form=form, when=when), self.agent(1, train + loop, restarts=1) as agent:
                    before = agent.output(0)
                    while agent.output(0) == before:
                        agent.poll()
                    agent.next_round(when, "a test")
                    self.assertEqual(agent.run(30), 0, agent.output(0))
                    self.assertEqual(agent.output(0)[len(before):].splitlines(), ["0 True None None 0", "1 False 0 0 1"])

    def test_a_worker_that_has_noted_no_step_has_no_state_in_the_next_round(self):
        code = """
for round in elastic.rounds():
    with round:
        print(round.number, round.is_new, round.source_rank, os.environ.get("DDPRUN_SOURCE_RANK"), flush=True)
        if round.number == 0:
            round.check(3)
        if round.number == 1:
            round.check(3)
            round.forget()
        while round.number < 3 and not round.interrupted:
            time.sleep(0.01)
        if round.number < 3:
            raise elastic.Interrupted("now", "noticed")
"""
        with self.agent(1, code) as agent:
            for number, line in enumerate(("0 True None None", "1 False 0 0", "2 True None None")):
                self.wait_for(agent, line)
                agent.next_round("now", f"round {number}")
            self.assertEqual(agent.run(30), 0, agent.output(0))
            self.assertEqual(agent.output(0).splitlines()[3:], ["3 True None None"])

    def test_a_worker_that_waits_for_new_ones_is_not_watched_until_it_has_made_a_step(self):
        code = """
def watched():
    with open(os.environ["DDPRUN_PROGRESS_FILE"], "rb") as page:
        return page.read(56)[52:] == bytes(4)
for round in elastic.rounds():
    with round:
        if round.number == 1:
            print("waits", watched())
            round.check(3)
            print("still waits", watched())
            round.share(3)
            print("has the state", watched())
        if round.number == 2:
            round.check(3)
            print("waits again", watched())
            round.check(4)
            print("has made a step", watched())
            break
        round.check(3)
        print("ready", round.number, watched(), flush=True)
        while True:
            time.sleep(0.01)
            round.check(3)
"""
        page = self.folder / "page"
        self.environment["DDPRUN_PROGRESS_FILE"] = str(page)
        with self.agent(1, code) as agent:
            for number in (0, 1):
                self.wait_for(agent, f"ready {number} True")
                agent.next_round("now", "a test")
            self.assertEqual(agent.run(30), 0, agent.output(0))
            self.assertEqual(agent.output(0).splitlines(), [
                "ready 0 True", "waits False", "still waits False", "has the state True", "ready 1 True", "waits again False",
                "has made a step True"])

    def test_an_error_that_is_not_of_a_lost_peer_is_raised_at_once(self):
        code = "for round in elastic.rounds():\n    with round:\n        raise ValueError('mine')\n"
        with self.agent(1, code) as agent:
            self.assertEqual(agent.run(30), 1)
            self.assertIn("ValueError: mine", agent.output(0))
            self.assertEqual(agent.log, [])

    def test_a_lost_peer_is_left_unasked_and_the_error_is_raised_if_the_agent_ends_the_worker(self):
        code = """
for round in elastic.rounds():
    with round:
        if round.number == 0:
            round.check(4)
            raise RuntimeError("[pair.cc:598] Connection closed by peer [127.0.0.1]:1954")
        print("went on with", round.source_rank, flush=True)
"""
        with self.agent(1, code, restarts=1) as agent:
            self.assertEqual(agent.run(30), 0, agent.output(0))
            self.assertEqual(agent.output(0).splitlines(), [
                "ddprun.elastic: rank 0 leaves round 0: RuntimeError, [pair.cc:598] Connection closed by peer [127.0.0.1]:1954",
                "went on with 0"])
        with self.agent(1, code) as agent:
            while not agent.workers[0].waits:
                agent.poll()
            agent.workers[0].stream.close()
            agent.workers[0].stream = None
            self.assertEqual(agent.workers[0].process.wait(30), 1)
            self.assertIn("Connection closed by peer", agent.output(0))

    def test_callbacks_run_at_once_for_a_lost_rank_and_after_a_while_where_nothing_has_failed(self):
        code = """
from unittest import mock
with mock.patch.object(elastic, "_STEP_SECONDS", 1.0):
    for round in elastic.rounds():
        with round:
            if round.number == 2:
                break
            called = []
            round.on_interrupt(lambda: called.append(time.monotonic()))
            print("ready", round.number, flush=True)
            while not round.interrupted:
                time.sleep(0.01)
            began = time.monotonic()
            while not called:
                time.sleep(0.01)
            print("late" if called[0] - began > 0.5 else "at once", flush=True)
            round.check(1)
"""
        with self.agent(1, code) as agent:
            for number, when in enumerate(("now", "step")):
                self.wait_for(agent, f"ready {number}")
                agent.next_round(when, "a test")
            self.assertEqual(agent.run(30), 0, agent.output(0))
            self.assertEqual(agent.output(0).splitlines(), ["ready 0", "at once", "ready 1", "late"])

    def test_connections_of_the_program_itself_are_left_alone(self):
        code = """
import socket
server = socket.create_server(("127.0.0.1", 0))
for round in elastic.rounds():
    with round:
        if round.number == 1:
            break
        mine = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
        raw = os.dup(socket.create_connection(server.getsockname()).detach())  # as of a library
        others, _ = server.accept()
        print("ready", flush=True)
        print(repr(others.recv(1)), flush=True)
        theirs.sendall(b"x")
        print(repr(mine.recv(1)), flush=True)
        round.check(1)
"""
        with self.agent(1, code) as agent:
            self.wait_for(agent, "ready")
            agent.next_round("now", "a test")
            self.assertEqual(agent.run(30), 0, agent.output(0))
            self.assertEqual(agent.output(0).splitlines(), ["ready", "b''", "b'x'"])

    def test_a_worker_that_waits_for_nothing_is_not_woken(self):
        code = """
def woken():
    return sum(int(line.split()[1]) for thread in os.listdir("/proc/self/task") if int(thread) != os.getpid()
               for line in open(f"/proc/self/task/{thread}/status") if line.startswith("voluntary_ctxt_switches"))
for round in elastic.rounds():
    with round:
        time.sleep(0.5)
        before = woken()
        time.sleep(1)
        print(woken() - before)
"""
        self.assertEqual(self.run_one(code), ["0"])


class Training(TrainingTest):
    @with_each_torch
    def test_a_worker_that_hangs_is_replaced_and_the_others_leave_the_collective_that_waits_for_it(self, torch):
        undisturbed = self.undisturbed(torch, STEPS)
        for victim in (0, 2):
            folder = self.folder / f"hangs.{victim}"
            record = Record(folder, SIZE)
            with self.subTest(victim=victim), self.agent(torch, folder, STEPS, "with", 0.01, restarts=0) as agent:
                while record.furthest() < 30:
                    self.assertIsNone(agent.step(), self.text_of(agent))
                os.kill(agent.workers[victim].process.pid, signal.SIGSTOP)
                before = -1
                while record.furthest() > before:  # until all wait for it
                    before = record.furthest()
                    time.sleep(0.5)
                began = time.monotonic()
                agent.next_round("now", f"rank {victim} hangs", limit=10, hung=(victim,))
                took = time.monotonic() - began
                self.assertEqual(agent.run(60), 0, self.text_of(agent))
                self.assertEqual((agent.replaced, agent.without_source), (1, 0), self.text_of(agent))
                record.check(self, undisturbed, STEPS)
                self.assertEqual(record.repeated(), [0] * SIZE)
                print(f"all have left {took:.2f} s after the interruption", file=sys.stderr)

    @with_each_torch
    def test_all_ranks_leave_after_the_same_step_where_nothing_has_failed(self, torch):
        undisturbed = self.undisturbed(torch, STEPS)
        folder = self.folder / "changed"
        record = Record(folder, SIZE)
        with self.agent(torch, folder, STEPS, "with", 0.01) as agent:
            while record.furthest() < 30:
                self.assertIsNone(agent.step(), self.text_of(agent))
            agent.next_round("step", "another node joins", limit=5)
            steps = {line.rsplit(" ", 1)[1] for line in agent.log if "waits" in line}
            self.assertEqual(len(steps), 1, agent.log)
            self.assertEqual(agent.run(60), 0, self.text_of(agent))
            self.assertEqual(agent.replaced, 0)
            record.check(self, undisturbed, STEPS)
            self.assertEqual(record.repeated(), [0] * SIZE)

    @with_each_torch
    def test_the_program_of_the_document_runs_and_goes_on_after_a_kill(self, torch):
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "elastic.md").read_text(encoding="utf-8")
        (program,) = [part for part in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "import torch" in part]
        script = self.folder / "document.py"
        script.write_text(program, encoding="utf-8")
        environment = torch.environment(PYTHONPATH=str(PACKAGE), OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1")
        with FakeAgent([torch.python, script], 2, environment, self.folder, restarts=3, store_python=torch.python) as agent:
            def wait_for(text):
                end = time.monotonic() + 60
                while text not in agent.output(0) + agent.output(1):
                    self.assertLess(time.monotonic(), end, agent.output(0))
                    self.assertIsNone(agent.step(), agent.output(0))

            wait_for("step 20:")
            os.kill(agent.workers[1].process.pid, signal.SIGKILL)
            wait_for("round 1 begins at step")
            self.assertEqual(agent.run(120), 0, agent.output(0))
            self.assertNotIn("round 1 begins at step 0", agent.output(0))


if __name__ == "__main__":
    unittest.main()
