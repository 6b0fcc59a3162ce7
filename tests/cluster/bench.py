"""A cluster of Slurm with three nodes on this machine: its real daemons, from the distribution's packages.

A test module calls enter_namespaces() first: the whole test program starts again as process 1 of a process namespace, with a
network and an /etc/hosts of its own, so that nothing outlives it and no port is another program's. Where that is not possible,
or where Slurm is missing, the tests are skipped with the reason.
"""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ.get("DDPRUN_TEST_BUILD", "."))
BIN = pathlib.Path(os.environ.get("DDPRUN_TEST_BIN", BUILD / "bin"))
DDPRUN = BIN / "ddprun"
MEETING_WORKER = BUILD / "tests" / "meeting_worker"
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import namespaces  # noqa: E402
from namespaces import until  # noqa: E402

INSIDE = "DDPRUN_TEST_INSIDE_CLUSTER"
NAMESPACES = ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
NEEDED = ["unshare", "ip", "slurmctld-wlm", "slurmd-wlm", "srun", "scontrol"]
NODES = ["n1", "n2", "n3"]
why_not = ""


def enter_namespaces():
    """Does not return where it starts the test program again."""
    global why_not
    why_not = namespaces.missing(NEEDED, "scripts/install-deps --cluster")
    if not why_not and os.getuid() != 0:
        why_not = "Slurm's daemons start jobs as root only"
    why_not = why_not or namespaces.enter(NAMESPACES, INSIDE, ["ip", "link", "set", "lo", "up"])


def running(*names):
    """The process ids of the programs with these names."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                _, _, rest = pathlib.Path(f"/proc/{entry}/stat").read_text().partition("(")
                name, _, state = rest.rpartition(") ")
                # Nobody reaps orphans here: this process is the namespace's first one.
                if name in names and state[0] != "Z":
                    found.append(int(entry))
    return found


def command_line(pid):
    return pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def parent_of(pid):
    return int(re.search(r"^PPid:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE).group(1))


class SlurmTest(unittest.TestCase):
    """Its tests share one cluster."""

    auth = "none"  # by which Slurm's own daemons know each other

    @classmethod
    def setUpClass(cls):
        if why_not:
            raise unittest.SkipTest(why_not)
        temporary = tempfile.TemporaryDirectory(prefix="slurm")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.daemons = []
        cls.start()

    @classmethod
    def start(cls):
        host = socket.gethostname()
        hosts = cls.folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {' '.join(NODES)}\n127.0.0.1 {host}\n")
        subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
        cls.addClassCleanup(subprocess.run, ["umount", "/etc/hosts"], check=False)
        # Slurm looks up addresses of families that the machine has, and loopback alone does not count.
        subprocess.run(["ip", "-batch", "-"], check=True, text=True,
                       input="link set lo up\nlink add own type veth peer name other\naddr add 192.168.78.1/24 dev own\n"
                             "link set own up\nlink set other up\n")
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (cls.folder / name).mkdir()
        conf = cls.folder / "slurm.conf"
        conf.write_text(f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=17010
SlurmUser=root
SlurmdUser=root
AuthType=auth/{cls.auth}
AuthInfo=cred_expire=5
CredType=cred/{cls.auth}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
KillWait=30
StateSaveLocation={cls.folder}/state
SlurmdSpoolDir={cls.folder}/spool-%n
SlurmctldPidFile={cls.folder}/slurmctld.pid
SlurmdPidFile={cls.folder}/slurmd-%n.pid
NodeName={','.join(NODES)} NodeHostname={host} NodeAddr=127.0.0.1 Port=[17011-17013] CPUs=2
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:4 State=UP
""")
        os.environ["SLURM_CONF"] = str(conf)
        cls.addClassCleanup(os.environ.pop, "SLURM_CONF")
        cls.daemon("slurmctld-wlm", "-D", "-f", conf)
        for node in NODES:
            cls.daemon("slurmd-wlm", "-D", "-N", node, "-f", conf, "-d", shutil.which("slurmstepd-wlm"), log=node)

        def idle():
            shown = subprocess.run(["sinfo", "--noheader", "--format=%t %D"], capture_output=True, text=True, check=False)
            return shown.stdout.strip() == f"idle {len(NODES)}"

        until(idle, 60, lambda: "".join(path.read_text() for path in cls.folder.glob("*.log")))

    @classmethod
    def daemon(cls, program, *words, log=None):
        with open(cls.folder / f"{log or program}.log", "wb") as file:
            started = subprocess.Popen([program, *map(str, words)], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        cls.addClassCleanup(started.wait)
        cls.addClassCleanup(started.terminate)

    def tearDown(self):
        # What a failed test leaves would fail the others, too.
        self.addCleanup(subprocess.run, ["scancel", "--user=root"], check=False)
        self.assert_nothing_runs()

    def assert_nothing_runs(self, limit=30):
        names = ("ddprun", "ddp-agent", "meeting_worker", "train", "sleep")
        until(lambda: not running(*names), limit,
              lambda: [command_line(pid) for pid in running(*names)])

    def begin(self, *words):
        """A command, its outputs joined."""
        command = subprocess.Popen([str(word) for word in words], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(command.stdout.close)
        return command

    def output_of(self, *words, status=0):
        command = self.begin(*words)
        try:
            out, _ = command.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            command.kill()
            self.fail(f"{words}: not within 120 s: {command.communicate()[0]}")
        self.assertEqual(command.returncode, status, f"{words}: {out}")
        return out
