"""The Python package ddprun as pip would leave it, without pip: for tests of its modules under any Python."""

import os
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]


def lay_out(folder, program):
    """Makes `folder` a prefix with the package and a bin/ddprun that is `program`; returns what PYTHONPATH has to be."""
    packages = folder / "lib"
    shutil.copytree(ROOT / "python" / "ddprun", packages / "ddprun", ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "ddprun" / "_version.py").write_text('__version__ = "1.2.3"\n')
    info = packages / "ddprun-1.2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ddprun\nVersion: 1.2.3\n")
    (info / "RECORD").write_text("../bin/ddprun,,\n")
    (folder / "bin").mkdir()
    os.symlink(program, folder / "bin" / "ddprun")
    return packages
