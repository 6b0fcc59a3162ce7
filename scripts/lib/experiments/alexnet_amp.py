"""docs/experiments/alexnet-amp.md: AlexNet on CIFAR-10 in three precisions, alone, with DataParallel and with two workers."""

from experiments.page import Page, Row, peak, sample, seconds, share, table, times, weights

NAME = "alexnet-amp"
PRECISIONS = (("fp32", "fp32", ()), ("half", "half, no scaler", ("--precision=fp16", "--loss-scale=none")),
              ("half-scaler", "half with scaler", ("--precision=fp16", "--loss-scale=dynamic")))
WAYS = (("alone", "alone", 1, ("--shards=2",)), ("dp", "DP, 2 replicas", 1, ("--parallel=dp", "--replicas=2")),
        ("ddp", "DDP, 2 workers", 2, ()))
EVALUATED = "fp32-ddp-evaluated"


def page(quick):
    data = sample(quick, "cifar-10", 10000, 2000)
    common = ("--model=alexnet", "--image-shape=64x64x3", "--optimizer=adamw", "--lr=0.0001", "--schedule=plateau",
              "--plateau-patience=3", *(("--batch=2", "--epochs=1", "--max-steps=2") if quick else ("--batch=32", "--epochs=3")))
    off = ("--checkpoint-every=off",)
    rows = [Row(f"{precision}-{way}", (*common, *more, *how, *off), data, workers, f"{precision_title}, {way_title}")
            for precision, precision_title, more in PRECISIONS for way, way_title, workers, how in WAYS]
    rows.append(Row(EVALUATED, (*common, "--checkpoint-every=epoch", "--keep=1", "--tensorboard"), data, 2,
                    "fp32, DDP, with checkpoints", evaluated=True))
    return Page(NAME, "AlexNet on CIFAR-10: half precision, DP and DDP", 20, tuple(rows),
                "64x64 instead of 227x227 pixels, 10,000 of 50,000 training and 2,000 of 10,000 held-out images, 3 epochs instead of "
                "20. On a CPU half precision is rounded to, not computed with.", tables,
                tuple(f"{precision}-ddp" for precision, *_ in PRECISIONS),
                same=(*(tuple(f"{precision}-{way}" for way, *_ in WAYS) for precision, *_ in PRECISIONS), ("fp32-ddp", EVALUATED)))


def tables(results):
    titles = {row.name: row.title for row in page(False).rows}
    first = results["fp32-alone"].final["seconds"]
    evaluated = results[EVALUATED]
    lines = table(
        ["", "time", "faster", "accuracy", "held-out loss", "steps skipped", "peak memory of each", "weights"],
        [[titles[name], seconds(result.final["seconds"]), times(result.final["seconds"], first),
          share(result.final["test_accuracy"]), f"{result.final['test_loss']:.4f}", result.final["skipped"], peak(result),
          weights(result)] for name, result in results.items() if name != EVALUATED])
    return [*lines, "", "Evaluated apart from training (`train --eval`), of the run with checkpoints: accuracy "
            f"{share(evaluated.evaluated['test_accuracy'])} of the best epoch, in training {share(evaluated.best('test_accuracy'))}."]
