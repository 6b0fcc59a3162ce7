"""Parity with PyTorch, step by step, of the models that take half a minute and more each. A short run of each of them is
beside losses recorded from PyTorch in every run of the tests: test_recorded_losses.py."""

import unittest

from harness import with_each_torch
from parity import ParityTest, of_epochs


class Models(ParityTest):
    @with_each_torch
    def test_resnet18_has_pytorchs_losses_and_running_statistics(self, torch):
        self.check_model(torch, "20x20x3", "32,32", 12, "--model=resnet18", "--batch=32", "--lr=0.001", "--momentum=0",
                         "--weight-decay=0.01", "--decay=all", weights=1e-3, statistics=1e-3)

    @with_each_torch
    def test_alexnet_has_pytorchs_losses_with_the_same_dropout(self, torch):
        self.check_model(torch, "64x64x3", "8,8", 8, "--model=alexnet", "--dropout=0.3", "--batch=4", "--shards=2", "--lr=0.1",
                         "--momentum=0", "--weight-decay=0.01", f"--seed={2**33 + 5}", weights=1e-3)
        self.check_gradients()

    @with_each_torch
    def test_unet16_has_pytorchs_losses_with_transposed_convolutions(self, torch):
        self.check_model(torch, "32x64x1", "4,4", 8, "--model=unet16", "--decoder=deconv", "--pos-weight=3", "--batch=4",
                         "--lr=0.01", "--momentum=0", limit=1e-5, weights=1e-2)
        self.check_gradients()

    @with_each_torch
    def test_unet_resnet34_has_pytorchs_losses_with_the_same_dropout_of_channels(self, torch):
        self.check_model(torch, "64x64x3", "4,4", 6, "--model=unet-resnet34", "--pos-weight=2", "--batch=2", "--shards=2",
                         "--lr=0.001", "--momentum=0", "--weight-decay=0.01", limit=1e-5, weights=1e-2, statistics=1e-3)
        self.check_gradients()

    @with_each_torch
    def test_textclf_has_pytorchs_losses_over_100_steps_with_the_same_dropout(self, torch):
        self.check_textclf(torch, 100, "--batch=8", "--shards=2", "--lr=0.0001", "--weight-decay=0.01", f"--seed={2**33 + 5}")
        self.check_gradients()

    @with_each_torch
    def test_resnet18_with_two_shards_has_the_losses_of_two_ranks_in_pytorch(self, torch):
        self.check_model(torch, "20x20x3", "32,32", 12, "--model=resnet18", "--batch=16", "--shards=2", "--optimizer=adamw",
                         "--lr=0.00001", "--weight-decay=0.1", weights=1e-3, statistics=1e-3)

    @with_each_torch
    def test_resnet18_with_the_stem_for_large_pictures_has_pytorchs_losses(self, torch):
        # At five times this rate windows of the stem's pooling part the two by 9e-5 in the first 20 steps.
        self.begin(torch, "40x40x3", "32,8", "--model=resnet18", "--stem=imagenet", "--batch=16", "--shards=2", "--lr=0.00002",
                   "--momentum=0", "--epochs=12")
        self.train(f"--out={self.out}", "--checkpoint-every=off", "--quiet")
        self.check_losses("loss of a step", of_epochs(self.out, "train_loss"), self.twin("follow")["losses"], 12)

    @with_each_torch
    def test_resnet18_with_the_stem_for_large_pictures_has_the_gradients_of_double_precision(self, torch):
        self.begin(torch, "40x40x3", "16,8", "--model=resnet18", "--stem=imagenet", "--batch=8", "--shards=2", "--epochs=1",
                   "--lr=0.1")
        self.check_gradients()

    @with_each_torch
    def test_unet16_has_pytorchs_losses_with_a_bilinear_decoder(self, torch):
        self.check_model(torch, "32x32x3", "4,4", 8, "--model=unet16", "--pos-weight=3", "--batch=2", "--shards=2",
                         "--lr=0.01", "--momentum=0", "--weight-decay=0.01", limit=1e-5, weights=1e-2)
        self.check_gradients()

    @with_each_torch
    def test_textclf_has_pytorchs_losses_over_20_steps_at_its_usual_rate_with_clipped_gradients(self, torch):
        self.check_textclf(torch, 20, "--grad-clip=0.5", "--batch=16", "--lr=0.0005", "--dropout=0", "--schedule=constant", limit=1e-5)


if __name__ == "__main__":
    unittest.main()
