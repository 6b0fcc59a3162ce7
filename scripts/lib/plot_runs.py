"""Curves of runs as one SVG; see scripts/plot."""

import argparse
import html
import json
import math
import pathlib
import sys

# Okabe and Ito's colours, which people with any sight of colours can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 260, 72, 16, 34, 40  # of a panel, and its margins
LEGEND_LINE = 18
TICKS = 5


class NothingToDraw(Exception):
    pass


class Curve:
    def __init__(self, run, is_held_out, points):
        self.run, self.is_held_out, self.points = run, is_held_out, points


def read_run(path):
    """The lines of metrics.jsonl that count, by type. A line that is cut off, as after a crash, is left out."""
    file = path / "metrics.jsonl" if path.is_dir() else path
    try:
        texts = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise NothingToDraw(f"{file}: {error.strerror}") from error
    lines = {"interval": [], "epoch": []}
    for text in texts:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if not isinstance(line, dict) or not isinstance(line.get("step"), int) or line.get("type") not in lines:
            continue
        kept = lines[line["type"]]
        while kept and kept[-1]["step"] >= line["step"]:  # repeated after a restart
            kept.pop()
        kept.append(line)
    if not any(lines.values()):
        raise NothingToDraw(f"{file}: no interval and no epoch with its step, as of a short run: train with --log-every=1")
    return lines


def points(lines, key):
    found = [(line["step"], line.get(key)) for line in lines]
    return [(step, value) for step, value in found if isinstance(value, (int, float)) and math.isfinite(value)]


def panels_of(runs):
    """(title, curves) of all that the runs have: the loss, their scores, the learning rate."""
    keys = {key for lines in runs for line in lines["epoch"] for key in line if key.startswith("test_")}
    scores = sorted(key.removeprefix("test_") for key in keys - {"test_loss"})
    panels = []
    for name in ("loss", *scores, "learning_rate"):
        curves = []
        for run, lines in enumerate(runs):
            curves.append(Curve(run, False, points(lines["interval"], name) or points(lines["epoch"], f"train_{name}")))
            curves.append(Curve(run, True, points(lines["epoch"], f"test_{name}")))
        curves = [curve for curve in curves if curve.points]
        if curves:
            panels.append((name.replace("_", " "), curves))
    return panels


def ticks(low, high):
    """Round numbers from low to high, about TICKS of them."""
    step = 10 ** math.floor(math.log10((high - low) / TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (factor * step) <= TICKS)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def shown(number):
    return f"{number:g}" if number == 0 or 1e-3 <= abs(number) < 1e5 else f"{number:.3g}"


def text(x, y, words, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(words)}</text>'


def panel(title, curves, y):
    xs = [x for curve in curves for x, _ in curve.points]
    ys = [y_value for curve in curves for _, y_value in curve.points]
    low, high = min(ys), max(ys)
    if low == high:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    last = max(*xs, 1)
    at_x = lambda x: LEFT + (WIDTH - LEFT - RIGHT) * x / last
    at_y = lambda value: y + HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)
    lines = [text(LEFT, y + TOP - 12, title, more=' font-weight="bold"')]
    for value in ticks(low, high):
        lines.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at_y(value):.1f}" y2="{at_y(value):.1f}"/>')
        lines.append(text(LEFT - 6, at_y(value) + 4, shown(value), "end"))
    for value in ticks(0, last):
        lines.append(text(at_x(value), y + HEIGHT - BOTTOM + 16, shown(value), "middle"))
    lines.append(text((LEFT + WIDTH - RIGHT) / 2, y + HEIGHT - 8, "step", "middle"))
    for curve in curves:
        colour = COLOURS[curve.run % len(COLOURS)]
        places = [(at_x(x), at_y(value)) for x, value in curve.points]
        path = " ".join(f"{x:.1f},{value:.1f}" for x, value in places)
        dashes = ' stroke-dasharray="5 3"' if curve.is_held_out else ""
        lines.append(f'<polyline points="{path}" stroke="{colour}"{dashes}/>')
        if curve.is_held_out or len(places) == 1:
            lines += [f'<circle cx="{x:.1f}" cy="{value:.1f}" r="2.5" fill="{colour}"/>' for x, value in places]
    return lines


def drawing(runs, names):
    panels = panels_of(runs)
    if not panels:
        raise NothingToDraw("the lines of these runs have no numbers")
    top = LEGEND_LINE * len(names) + 24
    height = top + HEIGHT * len(panels)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
             "<style>text{font:12px sans-serif}polyline{fill:none;stroke-width:1.5}.grid{stroke:#ddd}</style>",
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    for run, name in enumerate(names):
        y = 16 + LEGEND_LINE * run
        lines.append(f'<rect x="{LEFT}" y="{y - 9}" width="14" height="10" fill="{COLOURS[run % len(COLOURS)]}"/>')
        lines.append(text(LEFT + 20, y, name))
    lines.append(text(LEFT, 16 + LEGEND_LINE * len(names), "dashed: held-out samples", more=' fill="#555"'))
    for number, (title, curves) in enumerate(panels):
        lines += panel(title, curves, top + HEIGHT * number)
    return "\n".join([*lines, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(prog="plot", add_help=False, allow_abbrev=False)
    parser.add_argument("--output", default="plot.svg")
    parser.add_argument("--names")
    parser.add_argument("runs", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    names = options.names.split(",") if options.names else [path.resolve().name if path.is_dir() else path.resolve().parent.name
                                                             for path in options.runs]
    if len(names) != len(options.runs):
        parser.error(f"--names has {len(names)} names for {len(options.runs)} runs")
    try:
        svg = drawing([read_run(path) for path in options.runs], names)
        pathlib.Path(options.output).write_text(svg, encoding="utf-8")
    except NothingToDraw as error:
        print(f"plot: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"plot: {options.output}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"plot: {options.output}: {', '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
