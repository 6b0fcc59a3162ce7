#!/usr/bin/env python3
"""Inputs of the fuzzers, which are kept in one file for each entry: tests/fuzz/corpus/ENTRY.txt.

usage: inputs.py add ENTRY FILE...        adds these inputs, each by the name of its file
       inputs.py unpack ENTRY FOLDER      writes each input into a file of FOLDER, as libFuzzer reads them

An input begins with a line "# NAME". The lines behind it are its bytes without the ends of lines: bytes beyond printable ASCII, a
backslash, and what could not be seen at an end of a line or be taken for a name, are \\xHH, \\n or \\\\. Empty lines mean nothing.
Images (corpus/jpeg, corpus/png) are files of their own, because other tests read them, too.
"""

import pathlib
import re
import sys

CORPUS = pathlib.Path(__file__).parent / "corpus"
WIDTH = 100
ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|(n)|(\\))")


def lines_of(data):
    """The lines of an input's bytes."""
    lines = [""]
    for byte in data:
        shown = {0x0A: "\\n", 0x5C: "\\\\"}.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}")
        if len(lines[-1]) + len(shown) > WIDTH:
            lines.append("")
        lines[-1] += "\\x23" if shown == "#" and not lines[-1] else shown
        if shown == "\\n":
            lines.append("")
    return [line[:-1] + "\\x20" if line.endswith(" ") else line for line in lines if line]


def text_of(inputs):
    """The file of inputs, a dictionary of bytes by name."""
    return "\n".join("\n".join([f"# {name}", *lines_of(inputs[name])]) + "\n" for name in sorted(inputs))


def inputs_in(text):
    inputs = {}
    for line in text.split("\n"):
        if line.startswith("# "):
            inputs[name := line[2:]] = b""
        elif line:
            inputs[name] += ESCAPE.sub(lambda m: bytes.fromhex(m[1].decode()) if m[1] else b"\n" if m[2] else b"\\", line.encode())
    return inputs


def main(what, entry, *places):
    kept = CORPUS / f"{entry}.txt"
    inputs = inputs_in(kept.read_text()) if kept.exists() else {}
    if what == "add":
        inputs.update((pathlib.Path(file).name, pathlib.Path(file).read_bytes()) for file in places)
        kept.write_text(text_of(inputs))
    elif what == "unpack":
        folder = pathlib.Path(places[0])
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in inputs.items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ("add", "unpack"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
