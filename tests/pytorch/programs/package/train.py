"""Started as `-m package.train`: relative imports work, and the arguments are its own."""

import os
import sys

from . import __doc__ as about

print(f"RESULT rank {os.environ['RANK']} {__name__} of {__package__}: {about} {sys.argv[1:]}\n", end="")
