"""The error that ends scripts/experiment with exit code 2."""


class Refused(Exception):
    """Arguments are wrong, or a file is missing or damaged; the text tells which, and what to do."""
