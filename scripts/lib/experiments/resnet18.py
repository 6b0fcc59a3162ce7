"""docs/experiments/resnet18.md: ResNet-18 on Fashion-MNIST, one worker and two with twice the batch and rate."""

from experiments.page import Page, Row, sample, seconds, share, table, times, weights

NAME = "resnet18"
EPOCHS = 4


def options(quick):
    size = ("--batch=8", "--epochs=1", "--scale-lr=8") if quick else ("--batch=256", f"--epochs={EPOCHS}", "--scale-lr=256")
    return ("--model=resnet18", "--stem=small", "--init=normal:0.01", "--normalize=none", "--optimizer=sgd", "--momentum=0",
            "--lr=0.1", "--schedule=constant", "--checkpoint-every=off", *size)


def page(quick):
    data = sample(quick, "fashion-mnist", 12000, 2000)
    rows = tuple(Row(name, options(quick), data, workers=workers, title=title) for name, workers, title in (
        ("one-worker", 1, "1 worker, batch 256, rate 0.1"), ("two-workers", 2, "2 workers, batch 512, rate 0.2")))
    return Page(NAME, "ResNet-18 on Fashion-MNIST: one worker and two", 18, rows,
                f"12,000 of 60,000 training and 2,000 of 10,000 held-out images, {EPOCHS} epochs instead of 10.", tables,
                tuple(row.name for row in rows))


def tables(results):
    def an_epoch(result):
        return sum(line["seconds"] for line in result.epochs) / len(result.epochs)

    first = an_epoch(results["one-worker"])
    titles = {row.name: row.title for row in page(False).rows}
    epochs = range(len(results["one-worker"].epochs))
    return table(
        ["", "an epoch", "faster", *(f"accuracy after {epoch + 1}" for epoch in epochs), "updates", "weights"],
        [[titles[name], seconds(an_epoch(result)), times(an_epoch(result), first),
          *(share(line["test_accuracy"]) for line in result.epochs), result.final["steps"], weights(result)]
         for name, result in results.items()])
