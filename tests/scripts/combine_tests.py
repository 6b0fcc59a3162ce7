"""Writes one CTestTestfile.cmake that holds selected tests of several builds, for one ctest run over all of them.

usage: combine_tests.py OUTPUT_DIR NEVER_LABELS PRESET:only|exclude:LABELS...    (labels are regular expressions)

The tests of the tsan build are followed by one more: it fails with the files in OUTPUT_DIR/tsan-reports. There ThreadSanitizer
of every process writes (log_path, see scripts/test), because most processes are no test's own: a job can end as its test
expects although its agent has reported a data race.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

# Properties with names as values: these must not meet those of another build.
NAME_PROPERTIES = {"DEPENDS", "FIXTURES_CLEANUP", "FIXTURES_REQUIRED", "FIXTURES_SETUP"}
TSAN = "tsan"
TSAN_SLOWNESS = 4  # times that of the other builds, for which the limits are meant
TSAN_REPORTS = "tsan-reports"  # a folder and, after the preset, the name of a fixture
NO_REPORTS = 'cd "$0" && ! find . -type f -print -exec cat {} + | grep .'


def quoted(text):
    """A CMake bracket argument: taken as it is, whatever it holds."""
    fence = "="
    while f"]{fence}]" in text:
        fence += "="
    return f"[{fence}[{text}]{fence}]"


def property_value(value):
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, list):
        return ";".join(str(item).replace(";", "\\;") for item in value)
    return str(value)


def tests_of(build_dir):
    command = ["ctest", "--test-dir", str(build_dir), "--show-only=json-v1"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["tests"]


def properties_of(test):
    return {item["name"]: item["value"] for item in test.get("properties", [])}


def selected(labels, mode, pattern, never):
    """Whether a test with these labels belongs into the run."""
    if any(re.search(never, label) for label in labels):
        return False
    return any(re.search(pattern, label) for label in labels) == (mode == "only")


def lines_for(test, preset):
    name = quoted(f"{preset}: {test['name']}")
    # A test has no command if its program was not found: it has to fail, not to vanish.
    command = test.get("command", ["cmake", "-E", "false"])
    properties = properties_of(test)
    if "speed" in properties.get("LABELS", []):
        properties["RUN_SERIAL"] = True
    if preset == TSAN:
        if "TIMEOUT" in properties:
            properties["TIMEOUT"] *= TSAN_SLOWNESS
        properties["FIXTURES_REQUIRED"] = [*properties.get("FIXTURES_REQUIRED", []), TSAN_REPORTS]
    for key in NAME_PROPERTIES & properties.keys():
        properties[key] = [f"{preset}: {value}" for value in properties[key]]
    yield f"add_test({name} {' '.join(quoted(word) for word in command)})"
    pairs = " ".join(f"{key} {quoted(property_value(value))}" for key, value in sorted(properties.items()))
    if pairs:
        yield f"set_tests_properties({name} PROPERTIES {pairs})"


def check_of_reports(folder):
    """A test that runs after all others of the tsan build."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    folder.chmod(0o1777)  # a worker may be another user's
    name = quoted(f"{TSAN}: no process has reported a data race")
    yield f"add_test({name} sh -c {quoted(NO_REPORTS)} {quoted(str(folder.resolve()))})"
    yield f"set_tests_properties({name} PROPERTIES FIXTURES_CLEANUP {quoted(f'{TSAN}: {TSAN_REPORTS}')} LABELS unit TIMEOUT 60)"


def main(output_dir, never, *runs):
    output = pathlib.Path(output_dir)
    output.mkdir(parents=True, exist_ok=True)
    lines = []
    for run in runs:
        preset, mode, pattern = run.split(":", 2)
        chosen = [test for test in tests_of(output.parent / preset)
                  if selected(properties_of(test).get("LABELS", []), mode, pattern, never)]
        if not chosen and mode == "exclude":
            sys.exit(f"combine_tests: no test at all in the {preset} build")
        for test in chosen:
            lines += lines_for(test, preset)
        if preset == TSAN:
            lines += check_of_reports(output / TSAN_REPORTS)
    (output / "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
