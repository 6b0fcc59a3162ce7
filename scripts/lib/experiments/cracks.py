"""docs/experiments/cracks.md: U-Nets on CrackForest, also with a kill in the middle."""

from experiments.page import Page, Row, peak, sample, seconds, share, table, weights

NAME = "cracks"
EPOCHS = 10
MODELS = ("unet16", "unet-resnet34", "unet-resnet101")
KILLED_MODEL = "unet-resnet34"
KILLED = f"{KILLED_MODEL}-killed"
SLOW = f"{KILLED_MODEL}-rate-0.001"


def page(quick):
    data = sample(quick, "crackforest")
    size = ("--image-shape=64x64x3", "--batch=1") if quick else ("--image-shape=128x192x3", "--batch=2")
    common = (*size, "--optimizer=sgd", "--momentum=0.9", "--weight-decay=0.0001", "--decay=all", "--schedule=step",
              "--step-epochs=30", "--step-factor=0.1", "--pos-weight=auto", "--best=loss", "--checkpoint-every=epoch", "--keep=1")

    def row(name, model, rate="0.03", **more):
        epochs = EPOCHS if not quick else 2 if model == KILLED_MODEL else 1
        options = (f"--model={model}", f"--lr={rate}", f"--epochs={epochs}", *common)
        return Row(name, options, data, workers=2, evaluated=True, **more)

    rows = (*(row(model, model, title=model) for model in MODELS),
            row(SLOW, KILLED_MODEL, "0.001", title=f"{KILLED_MODEL}, rate 0.001"),
            row(KILLED, KILLED_MODEL, title=f"{KILLED_MODEL}, a worker killed", kill_after_epoch=0 if quick else EPOCHS // 2))
    return Page(NAME, "U-Nets on CrackForest", 27, rows,
                f"128x192 instead of 320x480 pixels, {EPOCHS} epochs, weights that begin random instead of trained on ImageNet, and so "
                "a rate of 0.03 instead of 0.001.",
                tables, (*MODELS, SLOW), same=((KILLED_MODEL, KILLED),))


def tables(results):
    titles = {row.name: row.title for row in page(False).rows}
    lines = table(
        ["", "time", "best epoch by loss", "held-out loss", "F1", "IoU", "precision", "recall", "peak memory of each",
         "weights"],
        [[titles[name], seconds(result.final["seconds"]), result.final["best_epoch"] + 1, f"{result.best('test_loss'):.4f}",
          *(share(of_masks(result)[key]) for key in ("f1", "iou", "precision", "recall")), peak(result), weights(result)]
         for name, result in results.items()])
    return [*lines, "", "F1, IoU, precision and recall are those of the crack's pixels, by `train --eval` of the best checkpoint. "
            f"In one run a worker was killed by SIGKILL after epoch {EPOCHS // 2 + 1}; ddprun restarted the workers, and the weights "
            "ended with the same bits."]


def of_masks(result):
    """The figures of the pixels inside of masks."""
    return next(one for one in result.evaluated["classes"] if one["name"] == "mask")
