"""docs/experiments/dp-ddp.md: one worker, DataParallel with two replicas, and two workers."""

from experiments.page import Page, Row, peak, sample, seconds, share, table, times, weights

NAME = "dp-ddp"
DP = ("--parallel=dp", "--replicas=2")
GROUPS = {"alexnet": "AlexNet, CIFAR-10", "textclf": "text classifier of RoBERTa-base's size, SST-2", "unet16": "unet16, CrackForest"}


def page(quick):
    pictures, texts = sample(quick, "cifar-10", 10000, 2000), sample(quick, "sst2", 6920, 100)
    cracks = sample(quick, "crackforest")
    off = ("--checkpoint-every=off", "--schedule=constant")
    alexnet = ("--model=alexnet", "--image-shape=64x64x3", "--optimizer=adamw", *off,
               *(("--epochs=1", "--max-steps=2") if quick else ("--epochs=2",)))
    size = "tiny" if quick else "base"
    textclf = ("--model=textclf", f"--size={size}", "--lr=0.00002", "--batch=4", "--epochs=1",
               f"--max-steps={2 if quick else 30}", *off)
    unet = ("--model=unet16", "--batch=2", "--lr=0.001", "--epochs=1", f"--max-steps={2 if quick else 20}",
            f"--image-shape={'64x64x3' if quick else '128x192x3'}", *off)
    small, large = (2, 4) if quick else (32, 64)

    def three(name, options, data, title):
        return [Row(f"{name}-one", (*options, "--shards=2"), data, 1, f"{title}, 1 worker"),
                Row(f"{name}-dp", (*options, *DP), data, 1, f"{title}, DP with 2 replicas"),
                Row(f"{name}-ddp", options, data, 2, f"{title}, DDP with 2 workers")]

    rows = three("alexnet", (*alexnet, f"--batch={small}", "--lr=0.0001"), pictures, "batch 64, rate 0.0001")
    doubled = (*alexnet, f"--batch={large}", "--lr=0.0002")
    rows += [Row("alexnet-dp-128", (*doubled, *DP), pictures, 1, "batch 128, rate 0.0002, DP with 2 replicas"),
             Row("alexnet-ddp-128", doubled, pictures, 2, "batch 128, rate 0.0002, DDP with 2 workers")]
    rows += three("textclf", textclf, texts, "batch 8, rate 0.00002") + three("unet16", unet, cracks, "batch 4, rate 0.001")
    return Page(NAME, "One worker, DataParallel and DistributedDataParallel", 10, tuple(rows),
                "AlexNet: 64x64 pixels, 10,000 of 50,000 training and 2,000 of 10,000 held-out images, 2 epochs. Text classifier: the "
                "base size instead of large, random weights, 30 steps, 100 held-out sentences. unet16: 128x192 pixels, 20 steps.",
                tables, same=(*(tuple(f"{group}-{way}" for way in ("one", "dp", "ddp")) for group in GROUPS),
                              ("alexnet-dp-128", "alexnet-ddp-128")))


def tables(results):
    titles = {row.name: row.title for row in page(False).rows}
    lines = []
    for group, title in GROUPS.items():
        those = {name: result for name, result in results.items() if name.startswith(group)}
        first = those[f"{group}-one"].final["seconds"]
        lines += [f"### {title}", ""]
        lines += table(["", "time", "faster", "train", "held out", "peak memory of each", "weights"],
                       [[titles[name], seconds(result.final["seconds"]), times(result.final["seconds"], first),
                         score(name, result.epochs[-1], "train"), score(name, result.final, "test"), peak(result), weights(result)]
                        for name, result in those.items()])
        lines.append("")
    return [*lines, "### Where a step of DP goes", "", *phases(results)]


def score(row, line, of):
    """The accuracy of AlexNet; the loss of the others: after their few steps the accuracy means nothing yet."""
    return share(line[f"{of}_accuracy"]) if row.startswith("alexnet") else f"loss {line[f'{of}_loss']:.4f}"


def phases(results):
    """Milliseconds of each phase, and how much more replica 0 holds."""
    those = {name: result.final["data_parallel"] for name, result in results.items() if "data_parallel" in result.final}
    names = list(next(iter(those.values()))["phase_seconds"])
    rows = [[f"{name}, ms a step", *(f"{1000 * one['phase_seconds'][name] / one['steps']:.1f}" for one in those.values())]
            for name in names]
    rows.append(["more memory on replica 0", *(f"{one['excess_bytes'] / 1e6:,.0f} MB" for one in those.values())])
    return table(["", *(f"`{name}`" for name in those)], rows)
