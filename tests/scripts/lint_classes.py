"""Counts the members and methods of each class and struct of the product, because a class must fit in the head.

usage: lint_classes.py ROOT     prints one line for each finding; exit 1 if there are any

A nested type is a type of its own. Constants (static constexpr), defaulted and deleted functions, friends and aliases do not
count; each overload does. It reads the definition alone: every member and method of a class stands there, whatever files have
the bodies.
"""

import dataclasses
import itertools
import pathlib
import re
import sys

from source_tree import code_only, line_of, source_files

MEMBERS_MAX = 20
METHODS_MAX = 30
UNCHECKED = {"tests", "bench", "cmake"}
# Type -> why it is larger. A type that is within the limits has no row.
_LARGE = "too large to fit in the head: to be split by what its members belong to"
EXCEPTIONS = {
    "Cudnn": "cuDNN's functions, one pointer each",
    "CudaGpu": "implements Gpu, which has one method for each call of CUDA's libraries",
    "GuardedGpu": "implements Gpu, which has one method for each call of CUDA's libraries",
    "Probes": "one function for each thing of the machine that a plan looks at, so that a test can replace it",
    "AgentSession": _LARGE,
    "Job": _LARGE,
    "ServiceConnection": _LARGE,
    "ServiceCore": _LARGE,
    "ServiceServer::Impl": _LARGE,
    "StoreCore": _LARGE,
    "StoreLoop": _LARGE,
}

TOKEN = re.compile(r'[A-Za-z_]\w*|"[^"]*"|::|->|\.\.\.|[^\s\w]|\d[\w\'.]*')
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
CLOSING = {"(": ")", "{": "}", "[": "]", "<": ">"}
CONSTANT = re.compile(r"\b(?:static|inline) .*\bconstexpr\b|\bconstexpr .*\bstatic\b")
WITH_OPERAND = {"decltype", "alignas", "noexcept", "explicit", "requires"}
NO_CLASS_HEAD = {";", ">", ",", "(", ")", "=", "&", "*", "}"}


@dataclasses.dataclass
class Type:
    name: str
    line: int
    members: int = 0
    methods: int = 0


class Source:
    """The types that one file defines."""

    def __init__(self, text):
        self.text = PREPROCESSOR.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), code_only(text))
        found = list(TOKEN.finditer(self.text))
        self.tokens = [match.group() for match in found]
        self.offsets = [match.start() for match in found]
        self.types = []
        self.scan(0, len(self.tokens), "")

    def scan(self, at, end, outer):
        """Reads the types that are defined between two tokens outside a class."""
        while at < end:
            body = self.class_body(at)
            at = self.read_type(at, body, outer) if body else at + 1

    def class_body(self, at):
        """Where the body of the class whose head begins here opens; None: no class is defined here."""
        if self.tokens[at] not in ("class", "struct", "union") or at and self.tokens[at - 1] in ("enum", "friend", "<", ","):
            return None
        names = 0
        at = self.skip_attributes(at + 1)
        while at < len(self.tokens) and self.tokens[at] not in NO_CLASS_HEAD:
            token = self.tokens[at]
            if token == "{":
                return at
            if token == ":":  # bases, whose templates may have any token
                return self.tokens.index("{", at)
            if token == "<":
                at = self.past(at)
                continue
            names += token.isidentifier() and token != "final" and self.tokens[at - 1] != "::"
            if names > 1:
                return None  # struct stat status{}
            at += 1
        return None

    def skip_attributes(self, at):
        while self.tokens[at] in ("[", "alignas"):
            at = self.past(at if self.tokens[at] == "[" else at + 1)
        return at

    def past(self, at):
        """The token behind the bracket that closes the one here."""
        opening, depth = self.tokens[at], 0
        while at < len(self.tokens):
            token = self.tokens[at]
            if token in "({[" and token != opening:
                at = self.past(at)
                continue
            depth += (token == opening) - (token == CLOSING[opening])
            at += 1
            if depth == 0:
                break
        return at

    def read_type(self, head, body, outer):
        """Reads a class; returns the token behind its body."""
        words = itertools.takewhile(lambda token: token not in (":", "final"), self.tokens[self.skip_attributes(head + 1):body])
        found = Type(outer + ("".join(words) or "(unnamed)"), line_of(self.text, self.offsets[head]))
        self.types.append(found)
        end = self.past(body) - 1
        at = body + 1
        while at < end:
            at = self.read_declaration(at, end, found)
        return end + 1

    def read_declaration(self, at, end, found):
        """Counts what one declaration of a class declares; returns the token behind it."""
        if self.tokens[at] in ("public", "private", "protected") and self.tokens[at + 1] == ":":
            return at + 2
        head = []  # without what stands in brackets
        function = initialized = False
        while at < end and self.tokens[at] != ";":
            token = self.tokens[at]
            body = self.class_body(at)
            if body:
                at = self.read_type(at, body, found.name + "::")
                head = []
                continue
            if token == "operator" and "using" not in head:
                at = self.tokens.index("(", at + 2)
                function = True
                continue
            if token == "=" and not initialized:
                initialized = True
                if self.tokens[at + 1] in ("default", "delete"):
                    return self.tokens.index(";", at) + 1
            if token == "(" and not initialized and not function and (not head or head[-1] not in WITH_OPERAND):
                behind = self.past(at)
                if self.tokens[behind] == "(" and "*" in self.tokens[at:behind]:
                    at = self.past(behind)  # a pointer to a function
                    continue
                function = True
            if token == ":" and function and not initialized:
                at = self.past_initializers(at)
                token = self.tokens[at]
            if token == "{" and function and not initialized:
                self.scan(at, self.past(at), found.name + "::")
                at = self.past(at)
                break  # a body, which needs no semicolon
            if token == "<" and (initialized or not head):
                at += 1
            elif token in CLOSING:
                at = self.past(at)
                if token == "{" and "enum" in head:
                    head = []
            else:
                head.append(token)
                at += 1
        self.count(head, function, found)
        return at + 1 if at < end and self.tokens[at] == ";" else at

    def past_initializers(self, at):
        """From the colon of a constructor to its body."""
        while True:
            at += 1
            while self.tokens[at] not in "({":
                at = self.past(at) if self.tokens[at] == "<" else at + 1
            at = self.past(at)
            if self.tokens[at] == "...":
                at += 1
            if self.tokens[at] != ",":
                return at

    @staticmethod
    def count(head, function, found):
        if not head or head[0] in ("using", "typedef", "friend", "static_assert", "enum", "class", "struct", "union"):
            return
        if "friend" in head[:3]:
            return
        if function:
            found.methods += 1
        elif not CONSTANT.search(" ".join(head)):
            found.members += 1 + head.count(",")


def types_in(text):
    return Source(text).types


def findings_in(path, text, exceptions):
    """Yields (line, what is wrong) for one file, and takes the exceptions that it needs out of `exceptions`."""
    for found in types_in(text):
        if found.members <= MEMBERS_MAX and found.methods <= METHODS_MAX:
            continue
        if found.name in EXCEPTIONS:
            exceptions.discard(found.name)
            continue
        yield found.line, (f"{found.name} has {found.members} members and {found.methods} methods: over {MEMBERS_MAX} or "
                           f"{METHODS_MAX}; give what belongs together a type of its own")


def main(root):
    unneeded = set(EXCEPTIONS)
    lines = []
    for path in source_files(root):
        if path.parts[0] in UNCHECKED:
            continue
        text = (pathlib.Path(root) / path).read_text(encoding="utf-8")
        lines += [f"{path}:{line}: {what}" for line, what in findings_in(path, text, unneeded)]
    lines += [f"tests/scripts/lint_classes.py:1: {name} is within the limits: take it out of EXCEPTIONS" for name in sorted(unneeded)]
    print("\n".join(lines), end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
