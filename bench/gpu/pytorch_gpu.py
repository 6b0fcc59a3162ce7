"""PyTorch's side of scripts/gpu-race: one process that trains a twin of a model of `train` (tests/pytorch/twins) and prints a
line of JSON; or measures what the GPU can do at most (--ceilings).

PyTorch at its best settings: channels last, autocast (with GradScaler for fp16), fused optimizer, cuDNN's benchmark mode,
scaled_dot_product_attention. --compile: torch.compile(mode="reduce-overhead"), which makes CUDA graphs; where that cannot
compile (Triton needs a C compiler), the backend "cudagraphs". Batches are made beforehand: PyTorch pays for no loader."""

import argparse
import contextlib
import json
import math
import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train_step"))
import pytorch_step  # noqa: E402
from torch.nn import functional  # noqa: E402

WINDOW = 0.25  # seconds between two looks at the clock
HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def attend(self, x, padding, queries):
    """SelfAttention.forward of the twin, in PyTorch's fused operation."""
    query, key, value = (linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                         for linear in (self.query, self.key, self.value))
    dropout = self.dropout.p if self.training else 0.0
    mixed = functional.scaled_dot_product_attention(query[:, :, :queries], key, value,
                                                    attn_mask=~padding[:, None, None], dropout_p=dropout)
    return mixed.transpose(1, 2).flatten(2)


def make_model(options, shape, device):
    if options.model == "resnet18" and options.stem:
        from resnet18 import ResNet18
        model, loss_of = ResNet18(shape, stem=options.stem), torch.nn.CrossEntropyLoss()
    else:
        model, loss_of = pytorch_step.make_model(options.model, shape, options.size)
    if options.model == "textclf":
        import textclf
        textclf.SelfAttention.forward = attend
    return pytorch_step.quicken(model).to(device).train(), loss_of


def padded(tokens, longest):
    """All batches in the width of the widest, as nearly all of them are: another one would be compiled anew."""
    return functional.pad(tokens, (0, longest - tokens.shape[1]), value=1)


def make_batches(options, shape, device):
    batches = pytorch_step.make_batches(options, shape)[:4]
    if options.tokens > 0:
        longest = max(tokens.shape[1] for tokens, _ in batches)
        batches = [(padded(tokens, longest), labels) for tokens, labels in batches]
    return [(inputs.to(device), targets.to(device)) for inputs, targets in batches]


def use_precision(precision):
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True


class Training:
    def __init__(self, options):
        self.options, self.device = options, options.device
        shape = tuple(map(int, options.shape.split("x")))
        self.model, self.loss_of = make_model(options, shape, self.device)
        self.optimizer = pytorch_step.make_optimizer(options.optimizer, self.model.parameters())
        self.batches = make_batches(options, shape, self.device)
        self.half = HALVES.get(options.precision)
        self.scaler = torch.amp.GradScaler(self.device, enabled=options.precision == "fp16")
        self.forward = self.loss
        self.number = 0

    def loss(self, inputs, targets):
        return self.loss_of(self.model(inputs), targets)

    def step(self):
        inputs, targets = self.batches[self.number % len(self.batches)]
        self.number += 1
        with torch.autocast(self.device, dtype=self.half) if self.half else contextlib.nullcontext():
            loss = self.forward(inputs, targets)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def compiled_step(self):
        torch.compiler.cudagraph_mark_step_begin()
        self.step()


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def compile_training(training):
    """How it was compiled. The first steps compile."""
    ways = {"inductor, reduce-overhead": {"mode": "reduce-overhead"}, "cudagraphs": {"backend": "cudagraphs"}}
    for number, (name, how) in enumerate(ways.items()):
        torch._dynamo.reset()
        training.forward = torch.compile(training.loss, **how)
        try:
            training.compiled_step()
            synchronize(training.device)
            return name
        except Exception as why:
            print(f"torch.compile by {name}: {type(why).__name__}: {str(why)[:2000]}", flush=True)
            if number + 1 == len(ways):
                raise
    return None


def flops_of_sample(training):
    """Of the products and convolutions of a step, forward and backward; None where PyTorch cannot count them."""
    try:
        from torch.utils.flop_counter import FlopCounterMode
        with FlopCounterMode(display=False) as counter:
            training.step()
        return counter.get_total_flops() / training.options.batch
    except Exception as why:
        print(f"FLOPs are not counted: {why}", flush=True)
        return None


def rate_of(step, batch, seconds, device):
    """Samples a second: the median of windows."""
    def run(steps):
        synchronize(device)
        begun = time.perf_counter()
        for _ in range(steps):
            step()
        synchronize(device)
        return time.perf_counter() - begun

    took = 0.0
    for _ in range(4):  # the last of these says how long a step takes
        took = run(3) / 3
    steps = max(1, math.ceil(WINDOW / max(took, 1e-6)))
    rates = []
    end = time.perf_counter() + seconds
    while not rates or time.perf_counter() < end:
        rates.append(steps * batch / run(steps))
    return statistics.median(rates)


def train(options):
    torch.manual_seed(0)
    training = Training(options)
    figures = {"torch": torch.__version__}
    step = training.step
    if options.compile:
        figures["compiled_by"] = compile_training(training)
        step = training.compiled_step
    else:
        figures["flops"] = flops_of_sample(training)
    figures["rate"] = rate_of(step, options.batch, options.seconds, options.device)
    if options.device == "cuda":
        figures["reserved_bytes"] = torch.cuda.max_memory_reserved()
        figures["allocated_bytes"] = torch.cuda.max_memory_allocated()
    return figures


def seconds_of(work, device, repeats=10):
    """Of one piece of work: the median of five times so many."""
    times = []
    for _ in range(6):
        synchronize(device)
        begun = time.perf_counter()
        for _ in range(repeats):
            work()
        synchronize(device)
        times.append((time.perf_counter() - begun) / repeats)
    return statistics.median(times[1:])


def ceilings(options):
    """Rates of square matrix products in TFLOP/s, and of a copy within the GPU in GB/s (bytes read and written)."""
    on_gpu = options.device == "cuda"
    side = 8192 if on_gpu else 256
    found = {}
    for name, kind in (("bf16", torch.bfloat16), ("fp16", torch.float16), ("tf32", torch.float32), ("fp32", torch.float32)):
        use_precision(name)
        a, b = (torch.randn(side, side, device=options.device).to(kind) for _ in range(2))
        out = torch.empty_like(a)
        found[name] = 2 * side**3 / seconds_of(lambda: torch.mm(a, b, out=out), options.device) / 1e12
    source = torch.zeros(2**30 if on_gpu else 2**20, dtype=torch.uint8, device=options.device)
    target = torch.empty_like(source)
    found["copy"] = 2 * source.numel() / seconds_of(lambda: target.copy_(source), options.device) / 1e9
    found["gpu"] = torch.cuda.get_device_name() if on_gpu else "the CPU"
    found["torch"] = torch.__version__
    return found


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ceilings", action="store_true")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--model")
    parser.add_argument("--shape", default="28x28x1", help="HEIGHTxWIDTHxCHANNELS")
    parser.add_argument("--size", help="of textclf")
    parser.add_argument("--stem", help="of resnet18")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=0)
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16", "fp16"), default="fp32")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def main():
    options = parse()
    use_precision(options.precision)
    print(json.dumps(ceilings(options) if options.ceilings else train(options)), flush=True)


if __name__ == "__main__":
    main()
