"""Loads a checkpoint into an ordinary PyTorch module and evaluates it on the held-out pictures of an IDX folder.

usage: check_checkpoint.py CHECKPOINT DATA EXPECTED_LOSS EXPECTED_ACCURACY
"""

import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "pytorch" / "twins"))
from data import read_idx  # noqa: E402
from lenet import LeNet  # noqa: E402


def main():
    checkpoint, data = map(pathlib.Path, sys.argv[1:3])
    loss_expected, accuracy_expected = map(float, sys.argv[3:5])
    model = LeNet()
    model.load_state_dict(load_file(checkpoint / "model.safetensors"))  # strict: every name and shape
    with safe_open(checkpoint / "model.safetensors", framework="pt") as file:
        metadata = file.metadata()
    moments = load_file(checkpoint / "optim.safetensors")
    for name, parameter in model.named_parameters():
        assert moments[f"{name}.momentum_buffer"].shape == parameter.shape, name

    mean, deviation = float(metadata["mean"]), float(metadata["deviation"])
    images = (read_idx(data / "t10k-images-idx3-ubyte").float() / 255 - mean) / deviation
    labels = read_idx(data / "t10k-labels-idx1-ubyte").long()
    with torch.no_grad():
        logits = model(images.unsqueeze(1))
    loss = F.cross_entropy(logits, labels).item()
    accuracy = (logits.argmax(1) == labels).float().mean().item()
    print(f"torch {torch.__version__}: loss {loss} accuracy {accuracy}")
    assert abs(loss - loss_expected) < 1e-4 * max(1.0, abs(loss_expected)), (loss, loss_expected)
    assert abs(accuracy - accuracy_expected) < 1e-6, (accuracy, accuracy_expected)


main()
