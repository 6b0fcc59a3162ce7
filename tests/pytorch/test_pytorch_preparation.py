"""What `train` makes of pictures is what torchvision's RandomCrop, RandomHorizontalFlip, CenterCrop and Normalize make of them
where they draw the same windows: with weights that stay as they are, every step and every evaluation has the same loss.
Images in another size are those of interpolate(antialias=True) but for rounding."""

import json
import os
import pathlib
import random
import subprocess
import unittest

from harness import with_each_torch
from parity import TWIN, ParityTest, losses_by_checkpoints, of_epochs

PRINT_RESIZED = pathlib.Path(os.environ.get("DDPRUN_TEST_BUILD", ".")) / "tests" / "print_resized"


class Preparation(ParityTest):
    epochs, steps = 2, 4

    def losses(self, torch, image, *options):
        """Of each step and of the held-out samples, ours and PyTorch's; the windows of each epoch are others."""
        self.begin(torch, image, "50,16", f"--epochs={self.epochs}", "--lr=0", "--shards=2", "--batch=8", "--seed=5", *options)
        twin = self.both("--checkpoint-every=1", "--keep=1000")
        count = self.epochs * self.steps
        ours = losses_by_checkpoints(self.out)
        self.check_losses("loss of a step", ours, twin["losses"], count, limit=1e-6)
        self.check_losses("held-out loss", of_epochs(self.out, "test_loss"), twin["held_out"], self.epochs, limit=1e-6)
        self.assertEqual(len(set(ours)), count)

    @with_each_torch
    def test_padded_windows_flips_and_given_means_of_colour_pictures(self, torch):
        self.losses(torch, "30x33x3", "--model=lenet", "--crop=24x29+3", "--flip", "--normalize=0.4,0.5,0.6:0.2,0.25,0.3")

    @with_each_torch
    def test_a_window_larger_than_the_picture_shows_zeros_around_it(self, torch):
        self.losses(torch, "20x21x3", "--model=lenet", "--crop=28+5", "--normalize=imagenet")

    @with_each_torch
    def test_flips_alone_and_no_normalisation(self, torch):
        self.losses(torch, "28x28x1", "--model=lenet", "--flip", "--normalize=none")

    @with_each_torch
    def test_masks_follow_their_pictures(self, torch):
        # One step an epoch, because checkpoints are large: metrics.jsonl then has every step.
        self.begin(torch, "36x40x1", "16,8", "--model=unet16", "--crop=32+2", "--flip", "--epochs=3", "--lr=0", "--batch=16")
        twin = self.both("--checkpoint-every=1h", "--keep=1")
        self.check_losses("loss of a step", of_epochs(self.out, "train_loss"), twin["losses"], 3, limit=1e-6)
        self.check_losses("held-out loss", of_epochs(self.out, "test_loss"), twin["held_out"], 3, limit=1e-6)
        self.check_scores(twin, 3)
        self.assertGreater(twin["scores"][-1]["iou"], 0.05)

    def check_resized(self, torch, shape, size):
        """Bytes are rounded twice, after the columns and after the rows; that shifts none of them to one side."""
        pixels = random.Random(1).randbytes(shape[0] * shape[1] * shape[2])
        numbers = [str(number) for number in (*shape, *size)]
        (self.folder / "image").write_bytes(pixels)
        resized = subprocess.run([PRINT_RESIZED, *numbers], input=pixels, stdout=subprocess.PIPE, check=True).stdout
        (self.folder / "resized").write_bytes(resized)
        self.torch = torch
        found = json.loads(self.call(torch.python, TWIN.with_name("resize.py"), self.folder, *numbers))
        self.tell(f"{shape} to {size}: {found}")
        self.assertTrue(found["nearest"])
        self.assertIn(found["pillow"], (True, None))
        self.assertLess(found["floats"]["most"], 1.001)
        self.assertLess(abs(found["floats"]["mean"]), 0.05)
        if found["bytes"] is not None:
            self.assertLessEqual(found["bytes"]["most"], 1)
            self.assertLess(abs(found["bytes"]["mean"]), 0.05)

    @with_each_torch
    def test_images_in_another_size_are_those_of_interpolate(self, torch):
        for shape, size in (((37, 53, 3), (24, 31)), ((50, 64, 1), (7, 64)), ((32, 32, 3), (227, 227)), ((20, 28, 3), (64, 11)),
                            ((90, 41, 1), (33, 120)), ((300, 200, 3), (32, 32))):
            with self.subTest(shape=shape, size=size):
                self.check_resized(torch, shape, size)


if __name__ == "__main__":
    unittest.main()
