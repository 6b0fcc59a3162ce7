"""What the tests of ddprun.elastic share: the workers' records, and kills at random moments."""

import os
import pathlib
import signal
import time

from harness import WORKERS

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python"  # for PYTHONPATH
SCRIPT = WORKERS / "elastic_ddp.py"


def lines_of(path):
    """The whole lines of a file that others append to."""
    if not path.exists():
        return []
    return [line.rstrip("\n") for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]


class Record:
    """What the workers of elastic_ddp.py have written into a folder."""

    def __init__(self, folder, size):
        self.folder = folder
        self.size = size

    def losses(self, rank):
        """(step, loss, round) in the order in which the steps were done."""
        return [(int(step), loss, int(number)) for step, loss, number in
                (line.split() for line in lines_of(self.folder / f"losses.{rank}"))]

    def furthest(self):
        return max((step for rank in range(self.size) for step, _, _ in self.losses(rank)[-1:]), default=0)

    def rounds_begun(self):
        """The number of the newest round that a worker has begun; -1: none."""
        return max((int(line.split()[0]) for line in lines_of(self.folder / "rounds")), default=-1)

    def parameters(self):
        return {line for rank in range(self.size) for line in lines_of(self.folder / f"parameters.{rank}")}

    def check(self, test, undisturbed, steps):
        """The losses are those of the other record. A rank that was interrupted in a step which another had finished goes on after it,
        so each step has been done by some rank, and a rank may lack one for each round that ended."""
        done = set()
        for rank in range(self.size):
            expected = {step: loss for step, loss, _ in undisturbed.losses(rank)}
            test.assertEqual(sorted(expected), list(range(1, steps + 1)))
            found = self.losses(rank)
            test.assertEqual([line for line in found if line[1] != expected[line[0]]], [])
            missing = set(expected) - {step for step, _, _ in found}
            test.assertLessEqual(len(missing), self.rounds_begun(), missing)
            done |= {step for step, _, _ in found}
        test.assertEqual(sorted(done), list(range(1, steps + 1)))
        test.assertEqual(self.parameters(), undisturbed.parameters())
        test.assertEqual(len(self.parameters()), 1)

    def repeated(self):
        """How often each rank has done a step that it, or its predecessor, had done already."""
        counts = []
        for rank in range(self.size):
            steps = [step for step, _, _ in self.losses(rank)]
            counts.append(len(steps) - len(set(steps)))
        return counts


class Killer:
    """Kills workers of a job at random moments: in training, and while a round is set up."""

    def __init__(self, chance, record, kills, pid_of):
        self.chance = chance
        self.record = record
        self.left = kills
        self.pid_of = pid_of
        self.done = []
        self.plan(None)

    def plan(self, rounds_before):
        """The next kill comes some steps after the newest, or soon after a round has begun behind the last kill, before which there were
        that many; None: that kill met nobody."""
        self.next_at = None
        self.in_setup = rounds_before is not None and self.chance.random() < 0.4
        self.wanted = rounds_before + 1 if self.in_setup else self.record.furthest() + self.chance.randrange(3, 12)

    def turn(self):
        """Kills if it is time. To be called again and again."""
        if self.left == 0:
            return
        now = time.monotonic()
        if self.next_at is None:
            reached = self.record.rounds_begun() if self.in_setup else self.record.furthest()
            if reached >= self.wanted:
                self.next_at = now + self.chance.uniform(0, 2.5 if self.in_setup else 0.05)
            return
        if now < self.next_at:
            return
        rounds_before = self.record.rounds_begun()
        # 0 is the rank that others meet at, and mostly the source.
        victims = self.chance.sample(range(self.record.size), 2 if self.chance.random() < 0.2 else 1)
        pids = [pid for pid in map(self.pid_of, victims) if pid is not None]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.done.append((self.in_setup, victims))
        self.left -= 1
        self.plan(rounds_before if pids else None)
