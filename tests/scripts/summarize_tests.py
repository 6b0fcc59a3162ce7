"""Counts what a ctest run did in one line, with the reasons of what was skipped: the last line of scripts/test.

usage: summarize_tests.py RESULTS SECONDS      (RESULTS is what ctest --output-junit wrote). Ends with 1 when no test ran.
"""

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree

# What a skipped test prints: tests/support/skip.hpp, unittest -v.
REASONS = [re.compile(r"^SKIPPED: (.+)$", re.MULTILINE), re.compile(r"\.\.\. skipped (['\"])(?P<why>.+)\1$", re.MULTILINE)]
REASONS_SHOWN = 8
REASON_LENGTH_MAX = 60
# How the tests of tests/pytorch/ begin their reason where there is no PyTorch (harness.py).
NO_TORCH = "no PyTorch"
UNTESTED = ("The tests with PyTorch did not run: nothing here has tested that programs for torchrun run unchanged under ddprun."
            "\n(scripts/install-deps --tests installs PyTorch, or tells why it can't.)")


def reason_of(output):
    """Why a test was skipped, up to the first colon: what follows differs from test to test."""
    for pattern in REASONS:
        found = pattern.search(output)
        if found:
            text = found.groupdict().get("why") or found.group(1)
            return text.split(": ")[0].strip()[:REASON_LENGTH_MAX]
    return "no reason given"


def outcome_of(case):
    """passed, failed, or the reason of a skip. A test without its program has failed, though ctest calls it skipped."""
    status = case.get("status")
    skipped = case.find("skipped")
    if status == "run":
        return "passed", None
    if status == "disabled":
        return "skipped", "disabled"
    if status == "notrun" and skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        return "skipped", reason_of(case.findtext("system-out") or "")
    return "failed", None


def duration(seconds):
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"


def summary(results, seconds):
    counts = collections.Counter()
    reasons = collections.Counter()
    for case in results.iter("testcase"):
        outcome, reason = outcome_of(case)
        counts[outcome] += 1
        if reason:
            reasons[reason] += 1
    shown = [f"{count} {reason}" for reason, count in reasons.most_common(REASONS_SHOWN)]
    rest = counts["skipped"] - sum(count for _, count in reasons.most_common(REASONS_SHOWN))
    if rest:
        shown.append(f"{rest} for other reasons")
    line = f"{counts['passed']} passed, {counts['skipped']} skipped"
    if shown:
        line += f" ({', '.join(shown)})"
    line += f", {counts['failed']} failed in {duration(seconds)}"
    return ([UNTESTED] if NO_TORCH in reasons else []) + [line], sum(counts.values())


def main(results_file, seconds):
    path = pathlib.Path(results_file)
    if not path.exists():
        sys.exit("test: ctest ended without results")
    lines, ran = summary(xml.etree.ElementTree.parse(path), int(seconds))
    print("\n".join(lines))
    sys.exit(0 if ran else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
