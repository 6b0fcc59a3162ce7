"""An environment of venv in which pip has installed a wheel of this build's programs; it is not activated."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("DDPRUN_TEST_BIN", "."))
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import package_files  # noqa: E402
import package_torchrun  # noqa: E402
import package_wheel  # noqa: E402

VERSION = "1.2.3"
ARCH = os.uname().machine  # the programs in it are this machine's


def has_pip():
    return subprocess.run([sys.executable, "-c", "import ensurepip, venv"], capture_output=True, check=False).returncode == 0


def wheel(folder):
    """The wheel ddprun, written below `folder`."""
    stage = [package_files.File(f"bin/{name}", (BIN / name).read_bytes(), True) for name in ("ddprun", "ddpctl", "rdzvd")]
    stage.append(package_files.File("include/ddprun/ddprun_progress.h", (ROOT / "worker/ddprun_progress.h").read_bytes()))
    files = package_wheel.wheel_files(stage, ROOT / "python" / "ddprun", VERSION, "2.28", ARCH)
    path = folder / f"ddprun-{VERSION}-{package_wheel.tag('2.28', ARCH)}.whl"
    path.write_bytes(package_wheel.zipped(files, package_files.timestamp()))
    return path


def torchrun_wheel(folder):
    """The wheel ddprun-torchrun, written below `folder`."""
    path = folder / f"ddprun_torchrun-{VERSION}-py3-none-any.whl"
    path.write_bytes(package_wheel.zipped(package_torchrun.wheel_files(VERSION), package_files.timestamp()))
    return path


def pip(python, *words, environment=None):
    """Runs pip without the network; it has to succeed."""
    done = subprocess.run([python, "-m", "pip", "--disable-pip-version-check", *words], check=False, capture_output=True, text=True, timeout=300,
                          env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def make(folder):
    """The folder of a new environment with the wheel ddprun."""
    venv = folder / "an environment"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True)
    pip(venv / "bin" / "python", "install", "--no-deps", "--no-index", wheel(folder))
    return venv


def variables():
    """This process's environment without what would choose another Python."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHON_EXEC", "VIRTUAL_ENV")}
