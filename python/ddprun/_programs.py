"""Where the programs are that came with this package."""

import importlib.metadata
import pathlib
import sysconfig
from typing import Optional


def program(name: str) -> Optional[pathlib.Path]:
    """The program `name` of this installation; None: pip has not installed one."""
    try:
        files = importlib.metadata.files("ddprun") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    places = [pathlib.Path(str(file.locate())) for file in files if file.name == name and file.parent.name == "bin"]
    places.append(pathlib.Path(sysconfig.get_path("scripts")) / name)
    for place in places:
        if place.is_file():
            return place.resolve()
    return None
