"""A model of `train` in PyTorch, with the same options: twin.py begin OPTIONS, then `train OPTIONS` and twin.py follow OPTIONS.

begin   writes the data set (--data) and initial weights (--init-from): PyTorch's own, and others for batch norm.
follow  trains as `train` does, and prints one line of JSON: the loss of every step, the held-out loss after every epoch, and
        how far the newest checkpoint (in --out) is from the weights and running statistics here.
"""

import argparse
import json
import math
import pathlib
import sys

import safetensors_file
import torch
from alexnet import AlexNet
from data import HELD_OUT, TRAIN, Data, Order, write_folder
from dropout import Dropout
from lenet import LeNet
from resnet18 import ResNet18
from torch.nn import functional

MODELS = {"lenet": LeNet, "resnet18": ResNet18, "alexnet": AlexNet}


def parse(arguments):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("what", choices=("begin", "follow"))
    parser.add_argument("--model", choices=MODELS, required=True)
    for name in ("data", "init-from", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    for name in ("batch", "epochs"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--dropout", type=float)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--optimizer", choices=("sgd", "adamw"), default="sgd")
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=0)
    parser.add_argument("--schedule", choices=("constant", "cosine"), default="cosine")
    parser.add_argument("--image", help="begin only: HEIGHTxWIDTHxCHANNELS of the data set")
    parser.add_argument("--samples", help="begin only: TRAINING,HELD-OUT")
    return parser.parse_known_args(arguments)[0]


def make_model(options, shape):
    torch.manual_seed(options.seed)
    return MODELS[options.model](shape, **({} if options.dropout is None else {"dropout": options.dropout}))


def make_optimizer(options, model):
    """Weight decay spares biases and norms: all that has one dimension."""
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": options.weight_decay},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0}]
    if options.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=options.lr)
    return torch.optim.SGD(groups, lr=options.lr, momentum=options.momentum)


def rate(options, step, steps):
    if options.schedule == "constant":
        return options.lr
    return options.lr * (1 + math.cos(math.pi * step / steps)) / 2


class SharedStatistics:
    """Running statistics: each shard mixes its own into those before the step; the mean over the shards is kept."""

    def __init__(self, model):
        self.buffers = list(model.buffers())
        self.before = [buffer.clone() for buffer in self.buffers]
        self.after = []

    def end_shard(self):
        self.after.append([buffer.clone() for buffer in self.buffers])
        for buffer, value in zip(self.buffers, self.before):
            buffer.copy_(value)

    def end_step(self):
        for buffer, *values in zip(self.buffers, *self.after):
            buffer.copy_(sum(values) / len(values))


def place_dropouts(model, seed, step, shard):
    for module in model.modules():
        if isinstance(module, Dropout):
            module.place(seed, step, shard)


def train_step(model, data, shards, seed, step):
    """The mean gradient, and the mean loss of all samples."""
    model.train()
    statistics = SharedStatistics(model)
    total = 0
    for shard, indices in enumerate(shards):
        place_dropouts(model, seed, step, shard)
        images, labels = data.batch(TRAIN, indices)
        loss = functional.cross_entropy(model(images), labels)
        (loss / len(shards)).backward()
        statistics.end_shard()
        total += loss.item() / len(shards)  # shards have equally many samples
    statistics.end_step()
    return total


def evaluate(model, data, batch):
    model.eval()
    total = 0
    with torch.no_grad():
        for indices in torch.arange(len(data.labels[HELD_OUT])).split(batch):
            images, labels = data.batch(HELD_OUT, indices)
            total += functional.cross_entropy(model(images), labels, reduction="sum").item()
    return total / len(data.labels[HELD_OUT])


def distances(model, checkpoint):
    """Of weights and of running statistics: the greatest |difference| / |value| of any tensor, both as Euclidean norms."""
    tensors = safetensors_file.read(checkpoint / "model.safetensors")
    there = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(tensors, strict=True)
    parameters = dict(model.named_parameters())
    found = {}
    for name, value in there.items():
        difference = torch.linalg.vector_norm(tensors[name].double() - value) / torch.linalg.vector_norm(value.double())
        kind = "weights" if name in parameters else "statistics"
        found[kind] = max(found.get(kind, 0.0), difference.item())
    return found


def follow(options):
    data = Data(options.data)
    model = make_model(options, data.shape)
    model.load_state_dict(safetensors_file.read(options.init_from))
    optimizer = make_optimizer(options, model)
    order = Order(len(data.labels[TRAIN]), options.shards, options.batch, options.seed)
    steps = order.steps * options.epochs
    losses, held_out = [], []
    for step in range(min(steps, options.max_steps or steps)):
        for group in optimizer.param_groups:
            group["lr"] = rate(options, step, steps)
        optimizer.zero_grad()
        losses.append(train_step(model, data, order.indices(step), options.seed, step))
        optimizer.step()
        if (step + 1) % order.steps == 0:
            held_out.append(evaluate(model, data, options.batch))
    print(json.dumps({"losses": losses, "held_out": held_out, "distances": distances(model, options.out / "latest")}))


def begin(options):
    shape = tuple(map(int, options.image.split("x")))
    write_folder(options.data, shape, tuple(map(int, options.samples.split(","))))
    model = make_model(options, shape)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # 1 and 0 would hide how both are used
            torch.nn.init.uniform_(module.weight, 0.8, 1.2)
            torch.nn.init.uniform_(module.bias, -0.2, 0.2)
    safetensors_file.write(options.init_from, model.state_dict())


if __name__ == "__main__":
    chosen = parse(sys.argv[1:])
    {"begin": begin, "follow": follow}[chosen.what](chosen)
