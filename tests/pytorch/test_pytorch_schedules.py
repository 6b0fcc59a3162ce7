"""The learning rates of a run are those that PyTorch's schedulers give for the same losses."""

import json
import unittest

from harness import with_each_torch
from parity import ParityTest, of_epochs

REPLAY = """
import json, sys, torch
kind, base, warmup, steps, epochs, factor, patience, losses = json.loads(sys.argv[1])
optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=base)
schedulers = torch.optim.lr_scheduler
rates = []
if kind == "transformers":  # get_linear_schedule_with_warmup, in its own words
    total = steps * epochs
    factor_of = lambda step: step / max(1, warmup) if step < warmup else max(0.0, (total - step) / max(1, total - warmup))
    scheduler = schedulers.LambdaLR(optimizer, factor_of)
elif kind == "linear":
    rise = schedulers.LinearLR(optimizer, 1 / warmup, 1, warmup - 1)
    fall = schedulers.LinearLR(optimizer, 1, 0, steps * epochs - warmup)
    scheduler = schedulers.SequentialLR(optimizer, [rise, fall], [warmup])
if kind != "plateau":
    for _ in range(steps * epochs):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
else:
    scheduler = schedulers.ReduceLROnPlateau(optimizer, factor=factor, patience=patience)
    for loss in losses:
        rates += [optimizer.param_groups[0]["lr"]] * steps
        optimizer.step()
        scheduler.step(loss)
print(json.dumps(rates))
"""


class Schedules(ParityTest):
    steps, epochs = 4, 12

    def rates(self, torch, *options):
        """Ours after each step, and the run's held-out losses."""
        # The twin makes the data and the weights; it does not train here.
        self.begin(torch, "28x28x1", "32,16", "--model=lenet", "--batch=8", f"--epochs={self.epochs}", "--lr=0.1")
        self.train(f"--out={self.out}", "--quiet", "--checkpoint-every=1", "--keep=1000", *options)
        states = [json.loads(path.read_text()) for path in self.out.glob("step-*/state.json")]
        states.sort(key=lambda state: state["step"])
        return [state["optimizer"]["learning_rate"] for state in states], of_epochs(self.out, "test_loss")

    def check(self, torch, ours, kind, base, warmup=0, factor=0, patience=0, losses=()):
        given = json.dumps([kind, base, warmup, self.steps, self.epochs, factor, patience, losses])
        theirs = json.loads(self.call(torch.python, "-c", REPLAY, given))
        self.assertEqual((len(ours), len(theirs)), (self.steps * self.epochs,) * 2)
        for step, (our, their) in enumerate(zip(ours, theirs)):
            self.assertAlmostEqual(our, their, delta=1e-7 * base, msg=f"step {step}: {ours}\n{theirs}")
        return theirs

    @with_each_torch
    def test_linear_is_linear_lr_behind_a_warm_up(self, torch):
        ours, _ = self.rates(torch, "--schedule=linear", "--warmup=6%+1", "--lr=0.01")
        self.check(torch, ours, "linear", 0.01, warmup=3)  # 6 % of 48 steps, rounded up

    @with_each_torch
    def test_linear_with_a_warm_up_is_that_of_transformers(self, torch):
        ours, _ = self.rates(torch, "--schedule=linear", "--warmup=6%", "--lr=0.01")
        self.check(torch, ours, "transformers", 0.01, warmup=3)

    @with_each_torch
    def test_plateau_is_reduce_lr_on_plateau(self, torch):
        # So high a rate that losses rise and fall.
        ours, losses = self.rates(torch, "--schedule=plateau", "--lr=0.3", "--momentum=0.5", "--plateau-patience=1",
                                  "--plateau-factor=0.3")
        theirs = self.check(torch, ours, "plateau", 0.3, factor=0.3, patience=1, losses=losses)
        self.assertLess(theirs[-1], theirs[0], f"no loss was worse, so this tests nothing: {losses}")


if __name__ == "__main__":
    unittest.main()
