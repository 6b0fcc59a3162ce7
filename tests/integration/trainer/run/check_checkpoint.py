"""Loads a checkpoint into an ordinary PyTorch module and evaluates it on the held-out pictures of an IDX folder.

usage: check_checkpoint.py CHECKPOINT DATA EXPECTED_LOSS EXPECTED_ACCURACY
"""

import struct
import sys

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file


class LeNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(16, 32, 5, padding=2)
        self.fc1 = torch.nn.Linear(32 * 7 * 7, 120)
        self.fc2 = torch.nn.Linear(120, 84)
        self.fc3 = torch.nn.Linear(84, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2)).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def read_idx(path):
    data = open(path, "rb").read()
    rank = data[3]
    shape = struct.unpack(f">{rank}I", data[4 : 4 + 4 * rank])
    return torch.frombuffer(bytearray(data[4 + 4 * rank :]), dtype=torch.uint8).reshape(shape)


def main():
    checkpoint, data = sys.argv[1:3]
    loss_expected, accuracy_expected = map(float, sys.argv[3:5])
    model = LeNet()
    model.load_state_dict(load_file(f"{checkpoint}/model.safetensors"))  # strict: every name and shape
    with safe_open(f"{checkpoint}/model.safetensors", framework="pt") as file:
        metadata = file.metadata()
    moments = load_file(f"{checkpoint}/optim.safetensors")
    for name, parameter in model.named_parameters():
        assert moments[f"{name}.momentum_buffer"].shape == parameter.shape, name

    mean, deviation = float(metadata["mean"]), float(metadata["deviation"])
    images = (read_idx(f"{data}/t10k-images-idx3-ubyte").float() / 255 - mean) / deviation
    labels = read_idx(f"{data}/t10k-labels-idx1-ubyte").long()
    with torch.no_grad():
        logits = model(images.unsqueeze(1))
    loss = F.cross_entropy(logits, labels).item()
    accuracy = (logits.argmax(1) == labels).float().mean().item()
    print(f"torch {torch.__version__}: loss {loss} accuracy {accuracy}")
    assert abs(loss - loss_expected) < 1e-4 * max(1.0, abs(loss_expected)), (loss, loss_expected)
    assert abs(accuracy - accuracy_expected) < 1e-6, (accuracy, accuracy_expected)


main()
