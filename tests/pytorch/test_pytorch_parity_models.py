"""Parity with PyTorch, step by step, of the models that take half a minute and more each. A short run of each of them is
beside losses recorded from PyTorch in every run of the tests: test_recorded_losses.py."""

import unittest

from harness import with_each_torch
from parity import ParityTest


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


if __name__ == "__main__":
    unittest.main()
