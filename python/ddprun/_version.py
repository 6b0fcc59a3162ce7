"""The version. scripts/package writes this file of the wheel anew."""

__version__ = "0"
