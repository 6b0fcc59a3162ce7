"""What `train` makes of pictures is what torchvision's RandomCrop, RandomHorizontalFlip, CenterCrop and Normalize make of them
where they draw the same windows: with weights that stay as they are, every step and every evaluation has the same loss."""

import unittest

from harness import with_each_torch
from parity import ParityTest, losses_by_checkpoints, of_epochs


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


if __name__ == "__main__":
    unittest.main()
