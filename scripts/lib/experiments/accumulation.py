"""docs/experiments/accumulation.md: gradient accumulation on SST-2, at equal epochs and at equal updates."""

from experiments.page import Page, Row, sample, seconds, share, table, times

NAME = "accumulation"
SHARDS = (1, 2, 5, 10, 20, 50, 80)  # a worker
BATCH, EPOCHS, SAMPLES = 4, 2, 6920
UPDATES = 173  # of one worker with 20 shards in two epochs


def epochs_for(updates, shards):
    """Epochs with at least so many updates."""
    an_epoch = -(-SAMPLES // (shards * BATCH))
    return -(-updates // an_epoch)


def page(quick):
    data = sample(quick, "sst2")
    shards = (1, 5) if quick else SHARDS
    rows = []
    for kind in ("epochs", "updates"):
        for workers in (1, 2):
            for count in shards:
                if kind == "epochs":
                    length = (f"--epochs={1 if quick else EPOCHS}",)
                else:
                    length = (f"--epochs={epochs_for(UPDATES, workers * count)}", f"--max-steps={2 if quick else UPDATES}")
                rows.append(Row(f"{kind}-{workers}x{count}", (
                    "--model=textclf", "--size=tiny", "--tokens=words", "--optimizer=adamw", "--lr=0.0002", "--schedule=constant",
                    f"--batch={BATCH}", f"--accumulate={count}", "--checkpoint-every=off", *length), data, workers))
    return Page(NAME, "Gradient accumulation on SST-2", 9, tuple(rows),
                "the tiny text classifier (2 layers of 128 channels) that begins random, instead of a trained RoBERTa-large; all 6,920 "
                "sentences, 2 epochs as in the post.", tables,
                # Twice as many shards on one worker are the same batches.
                same=tuple((f"{kind}-1x{2 * count}", f"{kind}-2x{count}")
                           for kind in ("epochs", "updates") for count in shards if 2 * count in shards))


def tables(results):
    counts = sorted({int(name.rsplit("x", 1)[1]) for name in results})
    lines = [f"### {EPOCHS} epochs", ""]
    lines += kind_table(results, "epochs", counts, with_updates=True)
    lines += ["", f"### {UPDATES} updates", ""]
    return lines + kind_table(results, "updates", counts, with_updates=False)


def kind_table(results, kind, counts, with_updates):
    heads = ["shards a worker"]
    for workers in ("1 worker", "2 workers"):
        heads += [f"{workers}: batch", *(["updates"] if with_updates else []), "time", "train accuracy", "dev accuracy"]
    heads.append("samples a second, 2 workers against 1")
    rows = []
    for count in counts:
        cells = [count]
        both = [results[f"{kind}-{workers}x{count}"] for workers in (1, 2)]
        for workers, result in enumerate(both, 1):
            cells += [workers * count * BATCH, *([result.final["steps"]] if with_updates else []), seconds(result.final["seconds"]),
                      share(result.epochs[-1]["train_accuracy"] if result.epochs else None), share(result.final.get("test_accuracy"))]
        # At equal updates two workers see twice the samples.
        one, two = (result.final["seconds"] for result in both)
        cells.append(times(two, one if with_updates else 2 * one))
        rows.append(cells)
    return table(heads, rows)
