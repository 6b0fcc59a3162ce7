"""`train` beside the same model in PyTorch (twins/): from the same initial weights and over the same samples, every step
has the same loss but for rounding, and so have the weights and running statistics at the end. The gradients of the first
step are those of a twin in double precision; checkpoints go through PyTorch and back."""

import json
import unittest

from harness import with_each_torch
from parity import TWIN, ParityTest, losses_by_checkpoints, of_epochs


class Parity(ParityTest):
    def check_lenet(self, torch, *options):
        # 16 steps an epoch, the last with fewer samples.
        self.begin(torch, "28x28x1", "1000,200", "--model=lenet", "--epochs=7", "--max-steps=100", *options)
        twin = self.both("--checkpoint-every=1", "--keep=1000")
        self.check_losses("loss of a step", losses_by_checkpoints(self.out), twin["losses"], 100)
        self.check_losses("held-out loss", of_epochs(self.out, "test_loss")[:6], twin["held_out"], 6)
        self.check_end(twin["distances"], weights=1e-3)

    @with_each_torch
    def test_lenet_has_pytorchs_losses_over_100_steps_with_sgd(self, torch):
        self.check_lenet(torch, "--batch=64", "--optimizer=sgd", "--momentum=0", "--lr=0.01", "--schedule=constant")
        self.check_gradients()

    @with_each_torch
    def test_lenet_has_pytorchs_losses_over_100_steps_with_momentum_decay_and_two_shards(self, torch):
        self.check_lenet(torch, "--batch=32", "--shards=2", "--optimizer=sgd", "--momentum=0.9", "--lr=0.002",
                         "--weight-decay=0.01", "--schedule=cosine", "--seed=7")

    @with_each_torch
    def test_lenet_has_pytorchs_losses_over_100_steps_with_adamw(self, torch):
        # At twice this rate one window of pooling with values that are equal but for rounding parts the two by 2e-4.
        # Which window that is depends on the CPU and on PyTorch's version.
        self.check_lenet(torch, "--batch=64", "--optimizer=adamw", "--lr=0.00005", "--weight-decay=0.1", "--schedule=cosine")

    @with_each_torch
    def test_a_checkpoint_goes_through_pytorch_and_back_to_the_same_loss(self, torch):
        self.begin(torch, "28x28x1", "100,50", "--model=lenet", "--epochs=1", "--batch=10", "--lr=0.05")
        self.both()
        self.check_same_loss_again()

    @with_each_torch
    def test_resnet18_has_the_gradients_of_double_precision(self, torch):
        # Small pictures: among the million inputs of ReLUs of the other tests some are 0 but for rounding.
        self.begin(torch, "8x8x3", "8,2", "--model=resnet18", "--batch=4", "--shards=2", "--epochs=1", "--lr=0.1")
        self.check_gradients()


class Scaler(ParityTest):
    @with_each_torch
    def test_the_loss_scale_has_the_trajectory_of_gradscaler(self, torch):
        if torch.release < (2, 3):
            self.tell(f"not compared: the GradScaler of {torch} needs a GPU")
            return
        # An overflow in step 50 (from 0) halves the scale; 2000 good steps later it doubles.
        steps, overflow, every = 2100, 50, 25
        self.begin(torch, "8x8x1", f"{steps},10", "--model=lenet", "--epochs=1", "--batch=1", "--lr=0", "--precision=fp16",
                   f"--inject-overflow-at={overflow}")
        out = self.folder / "out"
        self.train(f"--out={out}", f"--checkpoint-every={every}", "--keep=1000", "--quiet")
        states = [json.loads(path.read_text()) for path in out.glob("step-*/state.json")]
        ours = {state["step"]: [state["optimizer"]["loss_scale"], state["optimizer"]["good_steps"]] for state in states}
        theirs = json.loads(self.call(torch.python, TWIN.with_name("scaler.py"), steps, overflow))
        self.assertEqual(set(ours), set(range(every, steps + 1, every)))
        self.assertEqual(ours, {step: theirs[step - 1] for step in ours})
        self.assertEqual({scale for scale, _ in ours.values()}, {65536, 32768})
        self.assertEqual(ours[steps][0], 65536)


if __name__ == "__main__":
    unittest.main()
