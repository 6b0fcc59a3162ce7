"""The main program of scripts/experiment; the usage is at the top of that."""

import argparse
import difflib
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from experiments import (  # noqa: E402
    accumulation, alexnet_amp, cracks, data_sets, dp_ddp, out_folder, resnet18, runs, schedules)
from experiments.refused import Refused  # noqa: E402
from gpu_part import end_on_signals  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = {module.NAME: module for module in (dp_ddp, accumulation, cracks, schedules, resnet18, alexnet_amp)}
BEGIN = "<!-- begin of the tables: scripts/experiment {} --update-page writes them -->"
END = "<!-- end of the tables -->"


def say(words):
    print(words, flush=True)


def caption(page, results, is_quick):
    """The machine, the date, what was reduced: above the tables. All distinct values of all rows."""
    if is_quick:
        return ["With --quick: these figures mean nothing."]

    def all_of(key):
        return ", ".join(sorted({str(result.machine[key]) for result in results.values()}))

    dates = sorted({result.date for result in results.values()})
    return [f"Measured on {' to '.join(dict.fromkeys((dates[0], dates[-1])))} with {all_of('version')}: {all_of('cores')} cores of "
            f"{all_of('cpu')}, one thread and one lane for each worker, {all_of('compute')}. Reduced: {page.reduced}"]


def draw(page, folder):
    """The curves of the rows that the page names; None: of a page without."""
    if not page.curves:
        return None
    target = folder / "curves.svg"
    command = [ROOT / "scripts" / "plot", f"--output={target}", f"--names={','.join(page.curves)}",
               *(folder / "rows" / name / "run" for name in page.curves)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr.strip())
    return target


def update_page(page, lines, curves, docs):
    path = docs / f"{page.name}.md"
    text = path.read_text(encoding="utf-8")
    begin = BEGIN.format(page.name)
    if text.count(begin) != 1 or text.count(END) != 1 or text.index(END) < text.index(begin):
        raise Refused(f"{path} needs the line {begin}, and behind it {END}")
    before, rest = text.split(begin)
    after = rest.split(END)[1]
    picture = []
    if curves:
        (docs / f"{page.name}.svg").write_text(curves.read_text(encoding="utf-8"), encoding="utf-8")
        picture = ["", f"![Losses, scores and learning rates by steps]({page.name}.svg)"]
    path.write_text("\n".join([before + begin, *lines, *picture, END]) + after, encoding="utf-8")
    say(f"{path}: written")


def run_rows(page, options, runner, data):
    """Results by the rows' names, and how many failed. `data`: the folders of the samples."""
    results, failed = {}, 0
    folder = options.out / page.name
    refused = {}  # data that train could not read: the first row that tried
    for number, row in enumerate(page.rows, 1):
        begin = f"{page.name} {number}/{len(page.rows)} {row.name}"
        place = folder / "rows" / row.name
        result = None if options.again else runs.kept_result(place, row)
        if result:
            say(f"{begin}: done on {result.date}")
        elif row.data in refused:
            say(f"{begin}: left out: train refused the same data in row {refused[row.data]}")
            failed += 1
            continue
        else:
            say(f"{begin}: runs ({time.strftime('%H:%M:%S')})")
            since = time.monotonic()
            try:
                result = runner.run(row, data[row.data], place)
            except runs.RowFailed as why:
                say(f"{begin}: failed: {why}; log: {place / 'log.txt'}")
                failed += 1
                if isinstance(why, runs.DataRefused):
                    refused[row.data] = row.name
                continue
            say(f"{begin}: {time.monotonic() - since:.0f} s, {outcome(result)}")
        results[row.name] = result
    return results, failed


def outcome(result):
    keys = ("test_loss", "test_accuracy", "test_iou", "test_f1")
    return ", ".join(f"{key.removeprefix('test_')} {result.final[key]:.4f}" for key in keys if key in result.final)


def run_page(module, options, runner, data):
    """How many rows failed."""
    page = module.page(options.quick)
    folder = options.out / page.name
    results, failed = run_rows(page, options, runner, data)
    if failed:
        say(f"{page.name}: {failed} of {len(page.rows)} rows failed, so there is no table; the same command runs these again")
        return failed
    for group in page.same:
        if len({results[name].final["weights"] for name in group}) > 1:
            say(f"{page.name}: {', '.join(group)} should end with the same weights, but do not: that is a bug")
            failed += 1
    lines = [*caption(page, results, options.quick), "", *page.tables(results)]
    (folder / "table.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
    curves = draw(page, folder)
    say("\n".join(["", f"# {page.title}", "", *lines, ""]))
    say(f"{page.name}: {folder / 'table.md'}{f', {curves}' if curves else ''}")
    if options.update_page and not failed:
        update_page(page, lines, curves, options.docs)
    return failed


def list_pages():
    for module in PAGES.values():
        page = module.page(False)
        say(f"{page.name:13} {page.title} ({len(page.rows)} rows, about {page.minutes} minutes)")


def prepare_data(pages, options):
    """The folders of all samples, before the first row runs. All that is missing or damaged is told at once."""
    if options.data and not options.quick and not options.data.is_dir():
        raise Refused(f"{options.data_word}{options.data}: {'not a folder' if options.data.exists() else 'no such folder'}: name the "
                      "one that has the data sets (--help tells which, and where they come from); or try --quick, which needs no data")
    folders, problems = {}, {}
    for module in pages:
        for sample in (row.data for row in module.page(options.quick).rows):
            try:
                if sample not in folders and sample.name not in problems:
                    folders[sample] = data_sets.prepared(sample, options.data, options.out / "data")
            except Refused as why:
                problems[sample.name] = why
    if problems:
        raise Refused("\nexperiment: ".join(map(str, problems.values())))
    return folders


def meant(word, known):
    """"; did you mean ...?", or nothing."""
    found = [each for each in known if len(word) > 1 and each.startswith(word)] or difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {found[0]}?" if found else ""


def parse(arguments):
    parser = argparse.ArgumentParser(prog="experiment", add_help=False, allow_abbrev=False,
                                     usage="scripts/experiment NAME [OPTION...]  (--help tells more)")
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--update-page", action="store_true")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs" / "experiments", help=argparse.SUPPRESS)
    options, unknown = parser.parse_known_args(arguments)
    names = [*PAGES, "all"]
    if unknown and unknown[0] in names:
        parser.error(f"one NAME at a time, but {unknown[0]} is another one: `all` runs all of them")
    if unknown:
        flags = [flag for action in parser._actions for flag in action.option_strings if action.help != argparse.SUPPRESS]
        parser.error(f"unknown argument {unknown[0]}{meant(unknown[0].split('=')[0], flags)}")
    if options.name not in (None, *names):
        parser.error(f"no experiment is named {options.name}{meant(options.name, names)} (one of {', '.join(names)})")
    if not options.list and options.name is None:
        parser.error(f"NAME is missing: {', '.join(PAGES)}, or all")
    if options.quick and options.update_page:
        parser.error("--update-page needs figures that mean something, but --quick measures nothing")
    if options.quick and options.data:
        print(f"experiment: --data={options.data} is not used: --quick draws tiny data sets of its own", file=sys.stderr)
    options.data_word = "--data=" if options.data else "DDPRUN_TEST_DATA="
    options.data = options.data or os.environ.get("DDPRUN_TEST_DATA")
    options.data = pathlib.Path(options.data).resolve() if options.data else None
    options.out = (options.out or ROOT / "build" / ("experiments-quick" if options.quick else "experiments")).resolve()
    options.build = options.build.resolve()
    return options


def main():
    options = parse(sys.argv[1:])
    if options.list:
        list_pages()
        return 0
    end_on_signals()
    pages = list(PAGES.values()) if options.name == "all" else [PAGES[options.name]]
    try:
        for program in ("ddprun", "train"):
            if not (options.build / "bin" / program).is_file():
                raise Refused(f"{options.build / 'bin' / program} is missing: scripts/quickstart installs what is needed and "
                              "builds it; --build names another folder")
        out_folder.claim(options.out)
        data = prepare_data(pages, options)
        with runs.Runner(options.build / "bin") as runner:
            return 1 if sum(run_page(module, options, runner, data) for module in pages) else 0
    except (Refused, OSError) as why:
        print(f"experiment: {why}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
