"""`train` beside the same model in PyTorch (twins/): from the same initial weights and over the same samples, every step
has the same loss but for rounding, and so have the weights and running statistics at the end."""

import json
import pathlib
import sys
import unittest

from harness import BIN, TorchTest, run, with_each_torch

TWIN = pathlib.Path(__file__).resolve().parent / "twins" / "twin.py"


def losses_by_checkpoints(out):
    """The loss of every step. state.json has the sum over the samples since the epoch began, in units of 2^-24."""
    states = sorted((json.loads(path.read_text()) for path in out.glob("step-*/state.json")), key=lambda state: state["step"])
    losses, sum_before, count_before = [], 0, 0
    for state in states:
        samples, epochs, counters = state["config"]["samples"], state["epochs"], state["epoch_counters"]
        sum_now = counters["loss"] / 2**24 + sum(epoch["train_loss"] for epoch in epochs) * samples
        count_now = counters["count"] + len(epochs) * samples
        losses.append((sum_now - sum_before) / (count_now - count_before))
        sum_before, count_before = sum_now, count_now
    return losses


def of_epochs(out, name):
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return [line[name] for line in lines if line["type"] == "epoch"]


class Parity(TorchTest):
    def train_both(self, torch, image, samples, *options):
        """What the twin prints, after both have trained with these options."""
        self.out = self.folder / "out"
        options = [*options, f"--data={self.folder / 'data'}", f"--init-from={self.folder / 'initial.safetensors'}",
                   f"--out={self.out}"]
        for command in ([torch.python, TWIN, "begin", f"--image={image}", f"--samples={samples}", *options],
                        [BIN / "train", *options, "--quiet"],
                        [torch.python, TWIN, "follow", *options]):
            result = run(command, torch.environment(), self.folder, limit=280)
            self.assertEqual(result.status, 0, result)
        return json.loads(result.out)

    def check_losses(self, what, ours, theirs, count):
        self.assertEqual((len(ours), len(theirs)), (count, count))
        distance = max(abs(our - their) / their for our, their in zip(ours, theirs))
        print(f"{what}: {theirs[0]:.4f} to {theirs[-1]:.4f}, greatest relative difference {distance:.1e}", file=sys.stderr)
        self.assertLess(distance, 1e-4, f"{what}: {ours}\nPyTorch: {theirs}")

    def check_end(self, distances, **limits):
        """The limits are above the losses': where two values of a pooling window are equal but for rounding, or a ReLU's
        input is 0 but for rounding, the gradients take different ways."""
        self.assertEqual(set(distances), set(limits))
        for kind, distance in distances.items():
            print(f"{kind} at the end: relative difference {distance:.1e}", file=sys.stderr)
            self.assertLess(distance, limits[kind], kind)

    def check_lenet(self, torch, *options):
        # 16 steps an epoch, the last with fewer samples.
        twin = self.train_both(torch, "28x28x1", "1000,200", "--model=lenet", "--epochs=7", "--max-steps=100", *options,
                               "--checkpoint-every=1", "--keep=1000")
        self.check_losses("loss of a step", losses_by_checkpoints(self.out), twin["losses"], 100)
        self.check_losses("held-out loss", of_epochs(self.out, "test_loss")[:6], twin["held_out"], 6)
        self.check_end(twin["distances"], weights=1e-3)

    @with_each_torch
    def test_lenet_has_pytorchs_losses_over_100_steps_with_sgd(self, torch):
        self.check_lenet(torch, "--batch=64", "--optimizer=sgd", "--momentum=0", "--lr=0.01", "--schedule=constant")

    @with_each_torch
    def test_lenet_has_pytorchs_losses_over_100_steps_with_momentum_decay_and_two_shards(self, torch):
        self.check_lenet(torch, "--batch=32", "--shards=2", "--optimizer=sgd", "--momentum=0.9", "--lr=0.01",
                         "--weight-decay=0.01", "--schedule=cosine", "--seed=7")

    @with_each_torch
    def test_lenet_has_pytorchs_losses_over_100_steps_with_adamw(self, torch):
        self.check_lenet(torch, "--batch=64", "--optimizer=adamw", "--lr=0.0001", "--weight-decay=0.1", "--schedule=cosine")

    def check_resnet18(self, torch, *options):
        # One step an epoch, because a checkpoint has 45 MB: metrics.jsonl then has every step. The held-out loss is that of
        # the running statistics.
        twin = self.train_both(torch, "20x20x3", "32,32", "--model=resnet18", "--epochs=12", "--checkpoint-every=1h",
                               "--keep=1", *options)
        self.check_losses("loss of a step", of_epochs(self.out, "train_loss"), twin["losses"], 12)
        self.check_losses("held-out loss", of_epochs(self.out, "test_loss"), twin["held_out"], 12)
        self.check_end(twin["distances"], weights=1e-3, statistics=1e-3)

    @with_each_torch
    def test_resnet18_has_pytorchs_losses_and_running_statistics(self, torch):
        self.check_resnet18(torch, "--batch=32", "--lr=0.001", "--momentum=0", "--weight-decay=0.01")

    @with_each_torch
    def test_resnet18_with_two_shards_has_the_losses_of_two_ranks_in_pytorch(self, torch):
        self.check_resnet18(torch, "--batch=16", "--shards=2", "--optimizer=adamw", "--lr=0.00001", "--weight-decay=0.1")

    @with_each_torch
    def test_alexnet_has_pytorchs_losses_with_the_same_dropout(self, torch):
        # One step an epoch, because a checkpoint has 228 MB.
        twin = self.train_both(torch, "64x64x3", "8,8", "--model=alexnet", "--dropout=0.3", "--batch=4", "--shards=2",
                               "--epochs=8", "--lr=0.1", "--momentum=0", "--weight-decay=0.01", f"--seed={2**33 + 5}",
                               "--checkpoint-every=1h", "--keep=1")
        self.check_losses("loss of a step", of_epochs(self.out, "train_loss"), twin["losses"], 8)
        self.check_losses("held-out loss", of_epochs(self.out, "test_loss"), twin["held_out"], 8)
        self.check_end(twin["distances"], weights=1e-3)


if __name__ == "__main__":
    unittest.main()
