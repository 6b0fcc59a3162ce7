"""Finds the coroutine shapes that g++ 12 miscompiles or rejects, and coroutines where none may be.

usage: lint_coroutines.py ROOT      prints one line for each finding; exit 1 where there are any

In an expression with co_await these are never written (each was tried: double free, compiler crash, or no compilation):
a braced temporary as an argument, a capturing lambda, co_await in an arm of ?:, co_await to the right of && or ||, and
co_await inside a braced initializer. Name the thing first, or use if.
"""

import pathlib
import re
import sys

from source_tree import code_only, line_of, source_files

# The pure cores and the trainer have no coroutines at all.
NO_COROUTINES = ("proto/", "trainer/", "worker/")

COROUTINE_WORD = re.compile(r"\b(co_await|co_return|co_yield)\b")
OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = {")": "(", "]": "[", "}": "{"}
# A brace after one of these opens a block, not an initializer.
BLOCK_WORDS = {"else", "do", "try", "const", "noexcept", "override", "final", "mutable"}


def opens_block(code, brace):
    """Whether the brace at this offset opens a block of statements (or a class, or a lambda's body)."""
    before = code[:brace].rstrip()
    if not before or before[-1] in ");:{}":
        return True
    if before.endswith("]"):  # [captures] { body }, unless it is a subscript: x[i]{...}, which nobody writes
        return True
    if re.search(r"->\s*[\w:<>,\s&*]+$", before):  # a trailing return type
        return True
    if re.search(r"\b(namespace|class|struct|enum|union|extern)\b[^;{}()=]*$", before):
        return True
    word = re.search(r"(\w+)$", before)
    return bool(word) and word.group(1) in BLOCK_WORDS


def matching_close(code, opener):
    """Offset of the bracket that closes the one at this offset (the end of the text where there is none)."""
    depth = 0
    for offset in range(opener, len(code)):
        if code[offset] in OPENERS:
            depth += 1
        elif code[offset] in CLOSERS:
            depth -= 1
            if depth == 0:
                return offset
    return len(code)


def statement_start(code, offset):
    """Where the statement around this offset begins: after a ; or a block's brace outside of all brackets between."""
    depth = 0
    for at in range(offset - 1, -1, -1):
        char = code[at]
        if char in ")]":
            depth += 1
        elif char == "}":
            opener = matching_open(code, at)
            if depth == 0 and opens_block(code, opener):
                return at + 1
            depth += 1
        elif char in "([":
            depth -= 1
        elif char == "{":
            if depth <= 0 and opens_block(code, at):
                return at + 1
            depth -= 1
        elif char == ";" and depth <= 0:
            return at + 1
    return 0


def matching_open(code, closer):
    depth = 0
    for offset in range(closer, -1, -1):
        if code[offset] in CLOSERS:
            depth += 1
        elif code[offset] in OPENERS:
            depth -= 1
            if depth == 0:
                return offset
    return 0


def expression_end(code, offset):
    """Where the expression around this offset ends: at a ; or at the closing bracket of what it is in."""
    depth = 0
    at = offset
    while at < len(code):
        char = code[at]
        if char in OPENERS:
            if char == "{" and depth == 0 and opens_block(code, at) and not is_lambda_body(code, at):
                return at
            depth += 1
        elif char in CLOSERS:
            depth -= 1
            if depth < 0:
                return at
        elif char == ";" and depth == 0:
            return at
        at += 1
    return at


def is_lambda_body(code, brace):
    before = code[:brace].rstrip()
    return bool(re.search(r"\]\s*(\([^()]*(\([^()]*\)[^()]*)*\))?\s*(mutable|noexcept|\s)*(->\s*[\w:<>,\s&*]+)?$", before))


def without_lambda_bodies(code):
    """The same text with the bodies of lambdas blanked: what they await is theirs."""
    out = list(code)
    for match in re.finditer(r"\{", code):
        if out[match.start()] == "{" and is_lambda_body(code, match.start()):
            for at in range(match.start() + 1, matching_close(code, match.start())):
                if out[at] != "\n":
                    out[at] = " "
    return "".join(out)


def is_capturing_lambda(code, bracket):
    """Whether the [ at this offset opens the captures of a lambda that captures something."""
    before = code[:bracket].rstrip()
    if before.endswith(("auto", "&")) and re.search(r"\bauto\s*&{0,2}$", before):
        return False  # a structured binding
    word = re.search(r"(\w+)$", before)
    subscript = before.endswith((")", "]")) or (word and word.group(1) not in {"return", "co_return", "co_await"})
    if subscript or code[bracket + 1:bracket + 2] == "[" or before.endswith("["):
        return False
    close = matching_close(code, bracket)
    captures = code[bracket + 1:close].strip()
    follows = code[close + 1:].lstrip()[:1]
    return bool(captures) and follows in ("(", "{", "<")


def braced_temporary(code, brace):
    """The text before a brace that builds a temporary, or None: a block, a lambda's body, or a type known to be fine."""
    if opens_block(code, brace) and code[:brace].rstrip()[-1:] not in ("{",):
        return None
    before = code[:brace].rstrip()
    if before.endswith(("(", ",", "{")):
        return "{"
    named = re.search(r"([\w:]+)\s*(<[^;{}]*>)?$", before)
    if not named:
        return None
    # Types of the standard library and of Boost have constructors (std::array has none).
    if named.group(1).startswith(("std::", "boost::", "asio::")) and not named.group(1).startswith("std::array"):
        return None
    return named.group(0) + "{"


def operand_findings(code, start, end):
    """What is wrong inside the operand of a co_await (start is just behind the word)."""
    for at in range(start, end):
        if code[at] == "[" and is_capturing_lambda(code, at):
            yield at, "a capturing lambda in an expression with co_await (double free): name it first"
        elif code[at] == "{":
            temporary = braced_temporary(code, at)
            if temporary:
                yield at, f"a braced temporary '{temporary}...}}' in an expression with co_await (double free): name it first"


def reference_declarator(code, at):
    """Whether the && at this offset declares a reference: auto&& name."""
    return bool(re.search(r"[\w>]\s*$", code[:at])) and bool(re.match(r"&&\s*(\w+|\[[^\]]*\])\s*(=(?!=)|:(?!:))", code[at:]))


def awaits_at(code, offset):
    """All findings of the co_await at this offset."""
    end = expression_end(code, offset)
    yield from operand_findings(code, offset + len("co_await"), end)

    start = statement_start(code, offset)
    for match in re.finditer(r"\?|&&|\|\||\band\b|\bor\b|\{", code[start:offset]):
        at = start + match.start()
        token = match.group()
        if token == "{":
            if not opens_block(code, at) and matching_close(code, at) > offset:
                yield offset, "co_await inside a braced initializer (double free): await into a local first"
            continue
        # The operator's right side reaches to the end of the brackets it stands in.
        if expression_end(code, at + len(token)) <= offset:
            continue
        if token == "?":
            yield offset, "co_await in an arm of ?: (double free): use if"
        elif not reference_declarator(code, at):
            yield offset, f"co_await to the right of {token} (compiler crash): use a nested if"


def findings_in(path, text):
    """Yields (line, what is wrong) for one file; path is relative to the root, with forward slashes."""
    code = code_only(text)
    for match in re.finditer(r"\bdetached\b", code):
        yield line_of(code, match.start()), "detached: what a scope starts, it joins (TaskGroup)"
    if path.startswith(NO_COROUTINES):
        for match in COROUTINE_WORD.finditer(code):
            yield line_of(code, match.start()), f"{match.group()}: no coroutines in {path.split('/')[0]}/"
        return
    plain = without_lambda_bodies(code)
    seen = set()
    for match in re.finditer(r"\bco_await\b", code):
        # Inside a lambda's body the body is what counts; outside, bodies are not looked into.
        view = plain if plain[match.start()] == "c" else code
        for offset, what in awaits_at(view, match.start()):
            if (offset, what) not in seen:
                seen.add((offset, what))
                yield line_of(code, offset), what


def main(root):
    wrong = 0
    for path in source_files(root):
        for line, what in findings_in(path.as_posix(), (pathlib.Path(root) / path).read_text(encoding="utf-8")):
            print(f"{path}:{line}: {what}")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
