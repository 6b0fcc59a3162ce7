"""ddprun: a torchrun-like launcher that starts in milliseconds. The launcher is a program; this package has what Python programs ask for."""

from ddprun._progress import Stop, progress, progress_close, save_done, save_requested, stop_reason
from ddprun._version import __version__

__all__ = ["Stop", "__version__", "progress", "progress_close", "save_done", "save_requested", "stop_reason"]
