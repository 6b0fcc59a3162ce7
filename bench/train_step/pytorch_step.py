"""One rank of PyTorch for bench_train_step: trains a twin of a model of `train` (tests/pytorch/twins) and prints the time of a
step as JSON. At PyTorch's best settings on a CPU: channels last, fused optimizer, static graph, gradients as views of
their buckets, autocast for bf16. Attention stays the twin's products and softmax: with a dropout
scaled_dot_product_attention is slower by 2 to 9 % (PyTorch 2.15). Batches are made beforehand: PyTorch pays for no loader."""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import sys
import time

import torch
from torch import distributed, nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "pytorch" / "twins"))


def make_model(name, shape, size):
    """The twin, and the loss that goes with it."""
    if name == "lenet":
        from lenet import LeNet
        return LeNet(shape), nn.CrossEntropyLoss()
    if name == "alexnet":
        from alexnet import AlexNet
        return AlexNet(shape), nn.CrossEntropyLoss()
    if name == "resnet18":
        from resnet18 import ResNet18
        return ResNet18(shape), nn.CrossEntropyLoss()
    if name == "unet16":
        from unet import UNet16
        return UNet16(shape), nn.BCEWithLogitsLoss()
    if name == "textclf":
        from sentences import VOCABULARY
        from textclf import TextClassifier
        return TextClassifier(VOCABULARY if size == "tiny" else 50265, size=size), nn.CrossEntropyLoss()
    raise SystemExit(f"no twin of {name}")


class Dropout(nn.Dropout):
    def forward(self, x, _whole=None):
        return super().forward(x)


def quicken(model):
    """The twins compute dropout's masks as `train` does, in many small operations; PyTorch's own is faster. And ReLU works in
    place, which spares memory."""
    nn.functional.relu = lambda x, inplace=True: torch.relu_(x)
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child).__name__ == "Dropout" and not isinstance(child, nn.Dropout):
                setattr(parent, name, Dropout(child.probability))
    return model.to(memory_format=torch.channels_last)


def make_texts(batch, longest, count):
    from sentences import TRAIN, Sentences
    texts = Sentences(batch * count, longest)
    return [texts.batch(TRAIN, range(first, first + batch)) for first in range(0, batch * count, batch)]


def make_batches(options, shape, count=4):
    model_name, batch = options.model, options.batch
    if options.tokens > 0:
        return make_texts(batch, options.tokens, 4 * count)
    height, width, channels = shape
    batches = []
    for _ in range(count):
        images = torch.randn(batch, channels, height, width).contiguous(memory_format=torch.channels_last)
        target = torch.randint(10, (batch,))
        if model_name.startswith("unet"):
            target = torch.randint(2, (batch, height, width)).float()
        batches.append((images, target))
    return batches


def make_optimizer(kind, parameters):
    parameters = list(parameters)
    make = {"sgd": lambda **more: torch.optim.SGD(parameters, lr=0.0001, momentum=0.9, **more),
            "adamw": lambda **more: torch.optim.AdamW(parameters, lr=0.0001, **more)}[kind]
    try:
        return make(fused=True)
    except (TypeError, RuntimeError):  # older than 2.4
        return make(foreach=True)


def version():
    print(torch.__version__ + (", MKL" if torch.backends.mkl.is_available() else ", no MKL"))


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--model")
    parser.add_argument("--shape", help="HEIGHTxWIDTHxCHANNELS")
    parser.add_argument("--size", help="of textclf")
    for name in ("batch", "warm", "steps", "data-bytes", "tokens"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--optimizer")
    parser.add_argument("--precision", choices=("fp32", "bf16"))
    parser.add_argument("--meeting", help="file in which ranks find each other")
    return parser.parse_args()


def main():
    options = parse()
    if options.version:
        version()
        return
    torch.set_num_threads(1)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    shape = tuple(map(int, options.shape.split("x")))
    torch.manual_seed(0)
    data_set = torch.ones(options.data_bytes, dtype=torch.uint8)  # `train` holds one; for the peak of the memory
    model, loss_of = make_model(options.model, shape, options.size)
    model = quicken(model)
    if ranks > 1:
        distributed.init_process_group("gloo", init_method=f"file://{options.meeting}", rank=rank, world_size=ranks)
        model = nn.parallel.DistributedDataParallel(model, static_graph=True, gradient_as_bucket_view=True)
    optimizer = make_optimizer(options.optimizer, model.parameters())
    batches = make_batches(options, shape)

    def step(number):
        images, target = batches[number % len(batches)]
        half = options.precision == "bf16"
        with torch.autocast("cpu", dtype=torch.bfloat16) if half else contextlib.nullcontext():
            loss = loss_of(model(images), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    for number in range(options.warm):
        step(number)
    wall, cpu = time.perf_counter(), time.process_time()
    for number in range(options.steps):
        step(number)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"cpu_ms": cpu * 1000 / options.steps, "wall_ms": wall * 1000 / options.steps,
                      "peak_bytes": peak, "data_set": data_set.numel()}), flush=True)
    if ranks > 1:
        distributed.barrier()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
