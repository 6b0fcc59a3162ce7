"""docs/experiments/schedules.md: the global batch, its learning rate, and warm-up with a linear decay for any number of workers."""

from experiments.page import Page, Row, sample, seconds, share, table, weights

NAME = "schedules"
SMALL, LARGE, OF_LINEAR = "0.0025", "0.01", "0.05"  # for a batch of 16, four times that; with warm-up
OF_WORKERS = (1, 2, 4)
LINEAR = tuple(f"linear-{workers}" for workers in OF_WORKERS)


def page(quick):
    data = sample(quick, "fashion-mnist")
    common = ("--model=lenet", "--optimizer=sgd", "--checkpoint-every=off",
              *(("--epochs=1", "--log-every=1") if quick else ("--epochs=2", "--log-every=50")))

    def batch(name, shards, samples, rate):
        small = samples // 8 if quick else samples
        return Row(name, (*common, f"--shards={shards}", f"--batch={small}", f"--lr={rate}", "--schedule=constant"), data,
                   workers=min(shards, 2), title=f"{f'{samples} x {shards}' if shards > 1 else samples}, rate {rate}")

    rows = [batch("16-small", 1, 16, SMALL)]
    for rate, word in ((SMALL, "small"), (LARGE, "large")):
        rows += [batch(f"16x4-{word}", 4, 16, rate), batch(f"64-{word}", 1, 64, rate)]
    rows += [Row(f"linear-{workers}", (*common, "--shards=4", f"--batch={2 if quick else 16}", f"--lr={OF_LINEAR}", "--schedule=linear",
                                       "--warmup=6%+1"), data, workers=workers, title=f"{workers} of 4 workers' shards")
             for workers in OF_WORKERS]
    return Page(NAME, "Batches, learning rates and schedules", 3, tuple(rows),
                "`lenet` on all of Fashion-MNIST, 2 epochs; the post has no figures.", tables,
                LINEAR, same=(LINEAR,))


def tables(results):
    titles = {row.name: row.title for row in page(False).rows}
    lines = table(["batch and rate", "updates", "train loss", "held-out loss", "held-out accuracy"],
                  [[titles[name], result.final["steps"], f"{result.final['train_loss']:.4f}", f"{result.final['test_loss']:.4f}",
                    share(result.final["test_accuracy"])] for name, result in results.items() if not name.startswith("linear")])
    linear = {workers: results[f"linear-{workers}"] for workers in OF_WORKERS}
    lines += ["", "Warm-up over 6 % of the steps, then linear to 0; 4 shards of 16 samples:", ""]
    lines += table(["workers", "updates", "time", "held-out loss", "held-out accuracy", "weights"],
                   [[workers, result.final["steps"], seconds(result.final["seconds"]), f"{result.final['test_loss']:.6f}",
                     share(result.final["test_accuracy"]), weights(result)] for workers, result in linear.items()])
    return lines
