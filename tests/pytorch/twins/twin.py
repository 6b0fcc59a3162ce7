"""A model of `train` in PyTorch, with the same options: twin.py begin OPTIONS, then `train OPTIONS` and twin.py follow OPTIONS.

begin      writes the data set (--data, unless that is generated) and initial weights (--init-from): PyTorch's own, and others
           for norms.
follow     trains as `train` does, and prints one line of JSON: the loss of every step, the held-out loss after every epoch,
           of masks also the held-out IoU and F1.
           With --out, also how far its newest checkpoint is from the weights and running statistics here; that checkpoint
           goes through load_state_dict(strict=True) and state_dict() into --back.
gradients  computes the first step in double precision and prints how far the gradients in --out are from it, and how far
           those of PyTorch in single precision. The former are the momentum buffers after one step of SGD without decay:
           the gradients as they are.
"""

import argparse
import copy
import json
import math
import pathlib
import sys

import safetensors_file
import torch
from alexnet import AlexNet
from data import HELD_OUT, TRAIN, Crop, Data, Order
from dropout import Dropout
from folder import write_folder
from lenet import LeNet
from resnet18 import ResNet18
from sentences import VOCABULARY, Sentences
from textclf import TextClassifier
from torch.nn import functional
from unet import UNet16, UNetResNet34, UNetResNet101

MODELS = {"lenet": LeNet, "resnet18": ResNet18, "alexnet": AlexNet, "unet16": UNet16, "unet-resnet34": UNetResNet34,
          "unet-resnet101": UNetResNet101, "textclf": TextClassifier}


def parse(arguments):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("what", choices=("begin", "follow", "gradients"))
    parser.add_argument("--model", choices=MODELS, required=True)
    for name in ("data", "init-from"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    for name in ("out", "back"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    for name in ("batch", "epochs"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--dropout", type=float)
    parser.add_argument("--stem")
    parser.add_argument("--decoder")
    parser.add_argument("--pos-weight", type=float, default=1)
    parser.add_argument("--size")
    parser.add_argument("--crop")
    parser.add_argument("--flip", action="store_true")
    parser.add_argument("--normalize")
    parser.add_argument("--sentences", type=int, default=8000)
    parser.add_argument("--max-tokens", type=int, default=64, help="the most of a generated sentence")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--optimizer", choices=("sgd", "adamw"), default="sgd")
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, help="default: PyTorch's")
    parser.add_argument("--grad-clip", type=float, default=0)
    parser.add_argument("--decay", choices=("weights", "all"), default="weights")
    parser.add_argument("--schedule", choices=("constant", "cosine"), default="cosine")
    parser.add_argument("--channels-last", action="store_true", help="follow only: PyTorch's other layout")
    parser.add_argument("--without-onednn", action="store_true", help="follow only: PyTorch's own convolutions")
    parser.add_argument("--fresh-statistics", action="store_true", help="follow only: batch norm begins with 0 and 1")
    parser.add_argument("--image", help="begin only: HEIGHTxWIDTHxCHANNELS of the data set")
    parser.add_argument("--samples", help="begin only: TRAINING,HELD-OUT")
    options = parser.parse_known_args(arguments)[0]
    if options.weight_decay is None:
        options.weight_decay = 0.01 if options.optimizer == "adamw" else 0
    options.masked = options.model.startswith("unet")
    options.texts = options.model == "textclf"
    return options


def make_model(options, shape):
    """`shape`: of images; of texts the size of the vocabulary."""
    torch.manual_seed(options.seed)
    names = ("dropout", "stem", "decoder", "size")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return MODELS[options.model](shape, **given)


def make_optimizer(options, model):
    """Without --decay=all weight decay spares biases and norms: all that has one dimension."""
    decays = [p for p in model.parameters() if options.decay == "all" or p.dim() > 1]
    others = [p for p in model.parameters() if options.decay != "all" and p.dim() == 1]
    groups = [{"params": decays, "weight_decay": options.weight_decay}, {"params": others, "weight_decay": 0}]
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


def mean_loss(options, logits, targets):
    if not options.masked:
        return functional.cross_entropy(logits, targets)
    weight = torch.tensor(options.pos_weight, dtype=logits.dtype)
    return functional.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype), pos_weight=weight)


def train_step(options, model, data, order, step):
    """The mean gradient, and the mean loss of all samples."""
    model.train()
    statistics = SharedStatistics(model)
    total = 0
    shards = order.indices(step)
    for shard, indices in enumerate(shards):
        place_dropouts(model, options.seed, step, shard)
        inputs, targets = data.batch(TRAIN, indices, step // order.steps)
        if inputs.is_floating_point():
            inputs = inputs.to(next(model.parameters()).dtype)
        loss = mean_loss(options, model(inputs), targets)
        (loss / len(shards)).backward()
        statistics.end_shard()
        total += loss.item() / len(shards)  # shards have equally many samples
    statistics.end_step()
    return total


def evaluate(options, model, data):
    """The mean loss of the held-out samples; of masks also IoU and F1 of the pixels."""
    model.eval()
    total, true_positives, false_positives, false_negatives = 0, 0, 0, 0
    count = data.count(HELD_OUT)
    with torch.no_grad():
        for indices in torch.arange(count).split(options.batch):
            inputs, targets = data.batch(HELD_OUT, indices)
            logits = model(inputs)
            total += mean_loss(options, logits, targets).item() * len(indices)
            if options.masked:
                found, wanted = logits > 0, targets >= 0.5
                true_positives += (found & wanted).sum().item()
                false_positives += (found & ~wanted).sum().item()
                false_negatives += (~found & wanted).sum().item()
    if not options.masked:
        return total / count, None
    errors = false_positives + false_negatives
    return total / count, {"iou": true_positives / max(1, true_positives + errors),
                           "f1": 2 * true_positives / max(1, 2 * true_positives + errors)}


def distances(model, checkpoint, back):
    """Of weights and of running statistics: the greatest |difference| / |value| of any tensor, both as Euclidean norms. Not of
    the biases of keys: their gradient is 0 but for rounding, and AdamW makes steps of that as large as of any other."""
    tensors = safetensors_file.read(checkpoint / "model.safetensors")
    there = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(tensors, strict=True)
    if back is not None:
        safetensors_file.write(back, model.state_dict())
    parameters = dict(model.named_parameters())
    found = {}
    for name, value in there.items():
        if name.endswith(".key.bias"):
            continue
        difference = torch.linalg.vector_norm(tensors[name].double() - value) / torch.linalg.vector_norm(value.double())
        kind = "weights" if name in parameters else "statistics"
        found[kind] = max(found.get(kind, 0.0), difference.item())
    return found


def start(options):
    """Data, the model with its initial weights, and the order of samples."""
    if options.texts:
        data = Sentences(options.sentences, options.max_tokens)
    else:
        crop = Crop(options.crop, options.flip, options.seed) if options.crop or options.flip else None
        data = Data(options.data, options.masked, options.channels_last, options.normalize, crop)
    model = make_model(options, data.shape)
    model.load_state_dict(safetensors_file.read(options.init_from))
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d) and options.fresh_statistics:
            module.reset_running_stats()
    return data, model, Order(data.count(TRAIN), options.shards, options.batch, options.seed)


def follow(options):
    data, model, order = start(options)
    if options.channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = make_optimizer(options, model)
    steps = order.steps * options.epochs
    losses, held_out, scores = [], [], []
    for step in range(min(steps, options.max_steps or steps)):
        for group in optimizer.param_groups:
            group["lr"] = rate(options, step, steps)
        optimizer.zero_grad()
        losses.append(train_step(options, model, data, order, step))
        if options.grad_clip > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), options.grad_clip)
        optimizer.step()
        if (step + 1) % order.steps == 0:
            loss, of_masks = evaluate(options, model, data)
            held_out.append(loss)
            scores += [of_masks] if options.masked else []
    result = {"losses": losses, "held_out": held_out, "scores": scores, "torch": torch.__version__}
    if options.out is not None:
        result["distances"] = distances(model, options.out / "latest", options.back)
    return result


def gradients(options):
    data, model, order = start(options)
    exact = copy.deepcopy(model).double()
    for one in (model, exact):
        train_step(options, one, data, order, 0)
    ours = safetensors_file.read(options.out / "latest" / "optim.safetensors")
    squares, of_ours, of_single, worst = 0.0, 0.0, 0.0, ("", 0.0)
    for (name, parameter), single in zip(exact.named_parameters(), model.parameters()):
        norm = torch.linalg.vector_norm(parameter.grad).item()
        difference = torch.linalg.vector_norm(ours.pop(f"{name}.momentum_buffer").double() - parameter.grad).item()
        squares, of_ours = squares + norm**2, of_ours + difference**2
        of_single += torch.linalg.vector_norm(single.grad.double() - parameter.grad).item()**2
        worst = max(worst, (name, difference / norm), key=lambda one: one[1])
    return {"whole": math.sqrt(of_ours / squares), "single": math.sqrt(of_single / squares), "worst": worst, "left": list(ours)}


def begin(options):
    shape = VOCABULARY
    if not options.texts:
        shape = tuple(map(int, options.image.split("x")))
        write_folder(options.data, shape, tuple(map(int, options.samples.split(","))), options.masked)
        crop = Crop(options.crop, options.flip, options.seed)
        shape = (*(crop.size or shape[:2]), shape[2])
    model = make_model(options, shape)
    for module in model.modules():
        if isinstance(module, (torch.nn.BatchNorm2d, torch.nn.LayerNorm)):  # 1 and 0 would hide how both are used
            torch.nn.init.uniform_(module.weight, 0.8, 1.2)
            torch.nn.init.uniform_(module.bias, -0.2, 0.2)
    safetensors_file.write(options.init_from, model.state_dict())
    return {}


if __name__ == "__main__":
    chosen = parse(sys.argv[1:])
    if chosen.without_onednn:
        torch.backends.mkldnn.set_flags(False)
    print(json.dumps({"begin": begin, "follow": follow, "gradients": gradients}[chosen.what](chosen)))
