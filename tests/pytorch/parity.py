"""`train` beside the same model in PyTorch (twins/): what the tests of parity share."""

import json
import pathlib
import re
import sys

from harness import BIN, TorchTest, run

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


def name_of(option):
    return option.split("=")[0]


def relative_distances(ours, theirs):
    return [abs(our - their) / their for our, their in zip(ours, theirs)]


class ParityTest(TorchTest):
    limit = 280  # seconds for a command

    def begin(self, torch, image, samples, *options):
        """The data set and initial weights, for `both`. `image` None: the generated data."""
        self.out = self.folder / "out"
        self.torch = torch
        data = "generated" if image is None else self.folder / "data"
        self.options = [*options, f"--data={data}", f"--init-from={self.folder / 'initial.safetensors'}"]
        self.call(torch.python, TWIN, "begin", f"--image={image}", f"--samples={samples}", *self.options)

    def call(self, *command):
        result = run(command, self.torch.environment(OMP_NUM_THREADS="1"), self.folder, limit=self.limit)
        self.assertEqual(result.status, 0, result)
        return result.out

    def twin(self, what, *more):
        return json.loads(self.call(self.torch.python, TWIN, what, *self.with_others(more)))

    def train(self, *more):
        return self.call(BIN / "train", "--device=cpu", *self.with_others(more))

    def with_others(self, more):
        """The test's options, and `more` in the place of those with the same names."""
        names = {name_of(option) for option in more}
        return [option for option in self.options if name_of(option) not in names] + list(more)

    def both(self, *more):
        """What the twin prints, after both have trained."""
        self.train(f"--out={self.out}", "--quiet", *more)
        self.back = self.folder / "back.safetensors"
        return self.twin("follow", f"--out={self.out}", f"--back={self.back}")

    def tell(self, text):
        print(f"parity: {self.id().rsplit('.', 1)[-1]}: {text}", file=sys.stderr)

    def check_losses(self, what, ours, theirs, count, limit=1e-4):
        self.assertEqual((len(ours), len(theirs)), (count, count))
        distance = max(relative_distances(ours, theirs))
        self.tell(f"{what}: {theirs[0]:.4f} to {theirs[-1]:.4f}, greatest relative difference {distance:.1e}")
        self.assertLess(distance, limit, f"{what}: {ours}\nPyTorch: {theirs}")

    def check_end(self, distances, **limits):
        """The limits are above the losses': where two values of a pooling window are equal but for rounding, or a ReLU's
        input is 0 but for rounding, the gradients take different ways."""
        self.assertEqual(set(distances), set(limits))
        for kind, distance in distances.items():
            self.tell(f"{kind} at the end: relative difference {distance:.1e}")
            self.assertLess(distance, limits[kind], kind)

    def check_scores(self, twin, epochs, limit=1e-5):
        """Of masks: IoU and F1 of each epoch, from counts over the whole held-out set."""
        for name in ("iou", "f1"):
            ours, theirs = of_epochs(self.out, f"test_{name}"), [scores[name] for scores in twin["scores"]]
            self.assertEqual((len(ours), len(theirs)), (epochs, epochs))
            distance = max(abs(our - their) for our, their in zip(ours, theirs))
            self.tell(f"held-out {name}: {theirs[0]:.4f} to {theirs[-1]:.4f}, greatest difference {distance:.1e}")
            self.assertLess(distance, limit, f"{name}: {ours}\nPyTorch: {theirs}")

    def check_model(self, torch, image, samples, epochs, *options, limit=1e-4, **limits):
        # One step an epoch, because checkpoints are large: metrics.jsonl then has every step. The held-out loss is that of
        # the running statistics.
        self.begin(torch, image, samples, f"--epochs={epochs}", *options)
        twin = self.both("--checkpoint-every=1h", "--keep=1")
        self.check_losses("loss of a step", of_epochs(self.out, "train_loss"), twin["losses"], epochs, limit)
        self.check_losses("held-out loss", of_epochs(self.out, "test_loss"), twin["held_out"], epochs, limit)
        if twin["scores"]:
            self.check_scores(twin, epochs)
        self.check_end(twin["distances"], **limits)
        self.check_way_back()

    def check_textclf(self, torch, steps, *options, limit=1e-4):
        # Texts of 7 to 64 tokens: shards are 32 or 64 tokens wide. 19 steps an epoch, the last with fewer samples.
        self.begin(torch, None, None, "--model=textclf", "--size=tiny", "--sentences=300", f"--max-steps={steps}", "--epochs=6",
                   "--optimizer=adamw", *options)
        twin = self.both("--checkpoint-every=1", "--keep=1000")
        self.check_losses("loss of a step", losses_by_checkpoints(self.out), twin["losses"], steps, limit)
        epochs = steps // 19
        self.check_losses("held-out loss", of_epochs(self.out, "test_loss")[:epochs], twin["held_out"], epochs, limit)
        self.check_end(twin["distances"], weights=1e-3)
        self.check_way_back()
        self.check_same_loss_again()

    def check_way_back(self):
        """A checkpoint that went through PyTorch is, to the last bit, the weights that it was written from."""
        last = json.loads((self.out / "metrics.jsonl").read_text().splitlines()[-1])
        printed = self.train(f"--init-from={self.back}", "--lr=0", "--max-steps=1", "--checkpoint-every=off")
        (there,) = re.findall(r"initial weights from .* \(hash (\w+)\)", printed)
        self.assertEqual(there, last["weights"])

    def check_same_loss_again(self):
        """Without running statistics: what went through PyTorch has the held-out loss of the end, to the last bit."""
        again = self.folder / "again"
        self.train(f"--init-from={self.back}", f"--out={again}", "--lr=0", "--max-steps=1", "--checkpoint-every=off", "--quiet")
        self.assertEqual(of_epochs(again, "test_loss"), of_epochs(self.out, "test_loss")[-1:])

    def check_gradients(self, limit=1e-5):
        """Of the first step, beside the twin in double precision. Where a ReLU or a pooling goes the other way in single
        precision, or batch norm amplifies rounding, PyTorch in single precision is farther away than the limit, too."""
        out = self.folder / "gradients"
        self.options = [option for option in self.options if name_of(option) not in ("--weight-decay", "--decay")]
        self.train(f"--out={out}", "--quiet", "--optimizer=sgd", "--momentum=0.9", "--max-steps=1", "--checkpoint-every=1")
        found = self.twin("gradients", f"--out={out}")
        self.assertEqual(found["left"], [])
        name, worst = found["worst"]
        self.tell(f"gradients: {found['whole']:.1e} of the norm of all (PyTorch in single precision: {found['single']:.1e}), "
                  f"at most {worst:.1e} of one tensor's ({name})")
        self.assertLess(found["whole"], max(limit, 4 * found["single"]))
