"""Parity with PyTorch that takes minutes: usual learning rates, which amplify every rounding, and the largest U-Net."""

import unittest

from harness import with_each_torch
from parity import ParityTest, losses_by_checkpoints, of_epochs


class UsualRates(ParityTest):
    """The first 20 steps are within 1e-5. Later rounding is amplified until PyTorch with another layout of memory, or with its
    own convolutions, parts from itself: we are to be at most twice as far away as PyTorch is from itself at worst. The unit is
    the first loss, because later ones come near 0."""

    def check(self, ours, count, is_chaotic=False):
        others = [("--channels-last",), ("--without-onednn",), ("--channels-last", "--without-onednn")]
        if self.torch.release < (2, 0):
            del others[1:]  # its own convolutions take many minutes
        plain, *variants = (self.twin("follow", *more)["losses"] for more in ((), *others))
        self.assertEqual((len(ours), len(plain)), (count, count))

        def farthest(losses, steps):
            return max(abs(one - other) for one, other in zip(losses[:steps], plain)) / plain[0]

        first, whole = (farthest(ours, steps) for steps in (20, count))
        own_first, own_whole = (max(farthest(one, steps) for one in variants) for steps in (20, count))
        self.tell(f"greatest difference over 20 steps {first:.1e} (PyTorch from itself {own_first:.1e}), over {count} steps "
                  f"{whole:.1e} (PyTorch {own_whole:.1e})")
        self.assertLess(first, max(1e-5, 2 * own_first) if is_chaotic else 1e-5)
        self.assertLess(whole, max(1e-5, 2 * own_whole))

    def check_lenet(self, torch, *options):
        self.begin(torch, "28x28x1", "1000,20", "--model=lenet", "--batch=64", "--epochs=7", "--max-steps=100", *options)
        out = self.folder / "out"
        self.train(f"--out={out}", "--checkpoint-every=1", "--keep=1000", "--quiet")
        self.check(losses_by_checkpoints(out), 100)

    @with_each_torch
    def test_lenet_with_sgd(self, torch):
        self.check_lenet(torch, "--optimizer=sgd", "--lr=0.05")

    @with_each_torch
    def test_lenet_with_adamw(self, torch):
        self.check_lenet(torch, "--optimizer=adamw", "--lr=0.001", "--weight-decay=0.01")

    def check_epochs(self, torch, image, samples, count, *options, is_chaotic=False):
        self.begin(torch, image, samples, f"--epochs={count}", *options)
        out = self.folder / "out"
        self.train(f"--out={out}", "--checkpoint-every=off", "--quiet")
        self.check(of_epochs(out, "train_loss"), count, is_chaotic)

    @with_each_torch
    def test_resnet18_with_sgd(self, torch):
        # Batch norm over a batch amplifies rounding: within 20 steps PyTorch is farther from itself than 1e-5.
        self.check_epochs(torch, "20x20x3", "32,4", 40, "--model=resnet18", "--batch=32", "--lr=0.05", is_chaotic=True)

    @with_each_torch
    def test_alexnet_with_adamw(self, torch):
        self.check_epochs(torch, "64x64x3", "8,4", 24, "--model=alexnet", "--batch=8", "--optimizer=adamw", "--lr=0.0001")

    @with_each_torch
    def test_unet16_with_sgd(self, torch):
        self.check_epochs(torch, "32x32x3", "4,2", 24, "--model=unet16", "--batch=4", "--lr=0.01")

    @with_each_torch
    def test_unet_resnet34_with_sgd(self, torch):
        self.check_epochs(torch, "64x64x3", "4,2", 24, "--model=unet-resnet34", "--batch=4", "--lr=0.01")

    @with_each_torch
    def test_unet_resnet101_with_sgd(self, torch):
        self.check_epochs(torch, "64x64x3", "2,1", 24, "--model=unet-resnet101", "--batch=2", "--lr=0.01")

    @with_each_torch
    def test_textclf_with_adamw(self, torch):
        self.check_epochs(torch, None, None, 100, "--model=textclf", "--sentences=16", "--batch=16", "--optimizer=adamw",
                          "--lr=0.0005", "--schedule=constant")


class CalmSteps(ParityTest):
    """100 steps at rates that amplify no rounding: every loss is within 1e-4. Those of lenet are in
    test_pytorch_parity.py, that of textclf in test_pytorch_parity_models.py."""

    limit = 1500

    def check(self, torch, image, samples, *options):
        # One step an epoch: metrics.jsonl then has every step.
        self.begin(torch, image, samples, "--epochs=100", *options)
        self.train(f"--out={self.out}", "--checkpoint-every=off", "--quiet")
        twin = self.twin("follow")
        self.check_losses("loss of a step", of_epochs(self.out, "train_loss"), twin["losses"], 100)
        self.check_losses("held-out loss", of_epochs(self.out, "test_loss"), twin["held_out"], 100)

    @with_each_torch
    def test_alexnet_over_100_steps(self, torch):
        # With SGD at 0.01 one window of pooling with values that are equal but for rounding parts the two by 1.2e-4. AdamW makes
        # a whole step of a gradient near 0, with the sign that rounding gave it: 1e-3 at 0.00001, on some processors.
        self.check(torch, "63x63x3", "8,4", "--model=alexnet", "--batch=4", "--shards=2", "--optimizer=sgd", "--momentum=0",
                   "--lr=0.002")

    @with_each_torch
    def test_resnet18_over_100_steps(self, torch):
        self.check(torch, "20x20x3", "32,8", "--model=resnet18", "--batch=16", "--shards=2", "--momentum=0", "--lr=0.0001")

    @with_each_torch
    def test_resnet18_with_the_stem_for_large_pictures_over_100_steps(self, torch):
        # At five times this rate windows of the stem's pooling part the two by 1.3e-4.
        self.check(torch, "40x40x3", "32,8", "--model=resnet18", "--stem=imagenet", "--batch=16", "--shards=2", "--momentum=0",
                   "--lr=0.00002")

    @with_each_torch
    def test_unet16_over_100_steps(self, torch):
        self.check(torch, "32x32x3", "4,2", "--model=unet16", "--batch=2", "--shards=2", "--momentum=0", "--lr=0.01")

    @with_each_torch
    def test_unet_resnet34_over_100_steps(self, torch):
        self.check(torch, "64x64x3", "4,2", "--model=unet-resnet34", "--batch=2", "--shards=2", "--momentum=0", "--lr=0.0001")

    @with_each_torch
    def test_unet_resnet101_over_100_steps(self, torch):
        self.check(torch, "64x64x3", "2,1", "--model=unet-resnet101", "--batch=2", "--momentum=0", "--lr=0.0005")


class LargeModels(ParityTest):
    @with_each_torch
    def test_unet_resnet101_has_pytorchs_losses(self, torch):
        self.check_model(torch, "64x64x3", "4,4", 5, "--model=unet-resnet101", "--decoder=deconv", "--batch=2", "--shards=2",
                         "--lr=0.001", "--momentum=0", weights=1e-2, statistics=1e-3)
        self.check_gradients()


if __name__ == "__main__":
    unittest.main()
