"""Training under the agent of tests/support/fake_agent.py, with and without kills, compared by its losses."""

import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from elastic_job import PACKAGE, SCRIPT, Killer, Record
from fake_agent import FakeAgent
from harness import TorchTest

STEPS = 150
SIZE = 4


class TrainingTest(TorchTest):
    """The losses of a job whose workers are killed are those of an undisturbed one, bit for bit, and there is no checkpoint."""

    def agent(self, torch, folder, *arguments, **more):
        folder.mkdir()
        environment = torch.environment(PYTHONPATH=str(PACKAGE), OMP_NUM_THREADS="1", TORCH_CPP_LOG_LEVEL="ERROR")
        return FakeAgent([torch.python, SCRIPT, folder, *arguments], SIZE, environment, folder, store_python=torch.python, **more)

    def undisturbed(self, torch, steps):
        folder = self.folder / "undisturbed"
        with self.agent(torch, folder, steps) as agent:
            self.assertEqual(agent.run(120), 0, agent.output(0))
        return Record(folder, SIZE)

    def text_of(self, agent):
        return "\n".join([*agent.log, *(f"--- rank {rank}\n{agent.output(rank)[-3000:]}" for rank in range(SIZE))])

    def check_kills(self, torch, kills, form, steps):
        undisturbed = self.undisturbed(torch, steps)
        folder = self.folder / "killed"
        record = Record(folder, SIZE)
        seed = random.randrange(1 << 30)
        with self.subTest(seed=seed, form=form), self.agent(torch, folder, steps, form, 0.02, restarts=3 * kills) as agent:
            def pid_of(rank):
                process = agent.workers[rank].process
                return process.pid if process.poll() is None else None

            killer = Killer(random.Random(seed), record, kills, pid_of)
            end = time.monotonic() + 60 + 20 * kills
            code = None
            while code is None:
                self.assertLess(time.monotonic(), end, self.text_of(agent))
                killer.turn()
                code = agent.step()
            self.assertEqual((code, killer.left), (0, 0), self.text_of(agent))
            record.check(self, undisturbed, steps)
            if agent.without_source == 0:
                self.assertEqual(record.repeated(), [0] * SIZE, self.text_of(agent))
            print(f"{kills} kills, {sum(in_setup for in_setup, _ in killer.done)} in the setup of a round, {agent.round} further rounds, "
                  f"{agent.without_source} without a source, {agent.replaced} workers replaced", file=sys.stderr)
