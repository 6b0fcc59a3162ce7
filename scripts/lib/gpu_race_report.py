"""The table of scripts/gpu-race: medians and ratios of what was measured, and which aims were met."""

import fnmatch
import json
import statistics

from gpu_part import LOG

SIDES = ("train", "eager", "compile")


def median_ratio(ours, theirs):
    """Of the rounds: what slows a machine for a while hits both sides of a round."""
    ratios = [mine / other for mine, other in zip(ours, theirs)]
    return statistics.median(ratios) if ratios else None


def median_of(figures, name):
    values = [one[name] for one in figures if one.get(name) is not None]
    return statistics.median(values) if values else None


def summary_of(found, precision, ceiling):
    """Medians of the rounds, ratios of `train` to each other side (medians of the rounds' ratios), and `train`'s share of
    the GPU's matrix rate."""
    rates = {side: median_of(figures, "rate") for side, figures in found.items()}
    ratios = {side: median_ratio([one["rate"] for one in found.get("train", [])], [one["rate"] for one in found[side]])
              for side in found if side != "train"}
    flops = median_of(found.get("eager", []), "flops")
    share = None
    if rates.get("train") and flops and ceiling.get(precision):
        share = rates["train"] * flops / (ceiling[precision] * 1e12)
    return {"rates": rates, "ratios": ratios, "gib": {side: median_of(figures, "gib") for side, figures in found.items()},
            "share": share, "rounds": min((len(figures) for figures in found.values() if figures), default=0)}


def merged(earlier, later):
    """One summary of two turns of a row."""
    if not earlier:
        return later
    result = dict(later)
    for name in ("rates", "ratios", "gib"):
        result[name] = later[name] | {side: value for side, value in earlier[name].items() if value is not None}
    for name in ("share", "gaps"):
        result[name] = later[name] if earlier[name] is None else earlier[name]
    return result


def text_of(value, form):
    return "-" if value is None else form.format(value)


def title():
    return (f"{'':17} {'':4} {'train':>9} {'eager':>9} {'ratio':>6} {'compile':>9} {'ratio':>6}"
            f"  {'GiB: train, eager, compile':<26} {'share':>6} {'rounds':>6}")


def line_of(row, found):
    name, precision = row.split("/")
    rates, ratios, gib = found["rates"], found["ratios"], found["gib"]
    rate = {side: text_of(rates.get(side), "{:.0f}") for side in SIDES}
    ratio = {side: text_of(ratios.get(side), "{:.2f}x") for side in SIDES}
    memory = ", ".join(text_of(gib.get(side), "{:.2f}") for side in SIDES)
    return (f"{name:17} {precision:4} {rate['train']:>9} {rate['eager']:>9} {ratio['eager']:>6} {rate['compile']:>9}"
            f" {ratio['compile']:>6}  {memory:<26} {text_of(found['share'], '{:.1%}'):>6} {found['rounds']:>6}")


def gaps_line(gaps, copy):
    """`copy`: GB/s, where it was measured."""
    share = f", {gaps['update_gb_s'] / copy:.0%} of a copy" if copy else ""
    return (f"  train: for {gaps['gap_share']:.1%} of a step the GPU had nothing to do; optimizer"
            f" {gaps['update_gb_s']:.4g} GB/s{share} ({gaps['steps']} steps)")


# What `train` is to reach: rows, a side, at least so many times its samples a second.
GAPS_MOST = 0.02  # of a step
AIMS = (("resnet18-28/*", "compile", 1.0), ("resnet18-28/*", "eager", 1.3), ("alexnet-227/*", "compile", 1.0),
        ("alexnet-227/*", "eager", 1.3), ("textclf-large-*/*", "compile", 0.9))


def aims_of(summaries):
    """A line for each aim, met or missed or not measured. `summaries`: by row. Of memory `train` is to take no more than
    the side of PyTorch that takes less."""
    lines = []

    def verdict(aim, figures, wanted=()):
        """`figures`: (row, figure as text, whether that is enough). `wanted`: the rows that should have one."""
        missed = [f"{row} {text}" for row, text, enough in figures if not enough]
        met = [f"{row} {text}" for row, text, enough in figures if enough]
        without = [row for row in wanted if row not in [row for row, *_ in figures]]
        word = "missed" if missed else "not measured" if not met else "met in part" if without else "met"
        lines.append(f"  {word:12} {aim}" + (f": {', '.join(missed)}" if missed else "") +
                     (f"; met: {', '.join(met)}" if missed and met else f": {', '.join(met)}" if met else "") +
                     (f"; not measured: {', '.join(without)}" if without and figures else ""))

    for pattern, side, least in AIMS:
        verdict(f"{pattern} at least {least}x {side}",
                [(row, f"{found['ratios'][side]:.2f}x", found["ratios"][side] >= least)
                 for row, found in summaries.items() if fnmatch.fnmatchcase(row, pattern) and found["ratios"].get(side)],
                fnmatch.filter(summaries, pattern))
    memory = []
    for row, found in summaries.items():
        ours, theirs = found["gib"].get("train"), [gib for side, gib in found["gib"].items() if side != "train" and gib]
        if ours and theirs:
            memory.append((row, f"{ours:.2f} of {min(theirs):.2f} GiB", ours <= min(theirs)))
    verdict("memory at most PyTorch's", memory)
    verdict(f"host gaps below {GAPS_MOST:.0%} of a step",
            [(row, f"{found['gaps']['gap_share']:.1%}", found["gaps"]["gap_share"] < GAPS_MOST)
             for row, found in summaries.items() if found.get("gaps")])
    return lines


class Report:
    """Prints, and appends to race.txt and race.jsonl at once: a run that is cut off keeps what it has."""

    def __init__(self, folder):
        self.text, self.json = folder / "race.txt", folder / "race.jsonl"
        for path in (self.text, self.json, folder / LOG):
            path.write_text("")

    def line(self, text):
        print(text, flush=True)
        with self.text.open("a") as file:
            print(text, file=file)

    def figures(self, found):
        with self.json.open("a") as file:
            print(json.dumps(found), file=file)
