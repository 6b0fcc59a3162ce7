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
NEEDED = ["unshare", "ip", "slurmctld", "slurmd", "slurmstepd", "srun", "scontrol"]
REMEDY = "scripts/install-deps --cluster"
NODES = ["n1", "n2", "n3"]
ONE_EACH = "--ntasks-per-node=1"
why_not = ""


def enter_namespaces():
    """Does not return where it starts the test program again."""
    global why_not
    why_not = namespaces.missing(NEEDED, REMEDY)
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


def variables_of(pid):
    return dict(line.partition("=")[::2] for line in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0"))


def met(out):
    """Of each meeting_worker: its rank, and that of its node."""
    return sorted(re.findall(r"met rank=(\S+) node=(\S+) ", out))


def all_of(nodes, workers):
    """What met() gives where all have met."""
    size = nodes * workers
    return sorted((f"{rank}/{size}", f"{rank // workers}/{nodes}") for rank in range(size))


class SlurmTest(unittest.TestCase):
    """Its tests share one cluster. What subclasses may change of it:"""

    needed = ()  # programs beside Slurm's
    auth = "none"  # by which Slurm's own daemons know each other
    select = "SelectType=select/linear"
    of_each_node = "CPUs=2"
    partitions = "PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:4 State=UP"
    settings = ""  # more lines of slurm.conf
    gres = ""  # gres.conf

    @classmethod
    def setUpClass(cls):
        missing = why_not or namespaces.missing(cls.needed, REMEDY)
        if missing:
            raise unittest.SkipTest(missing)
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
        # The rendezvous of jobs has files there, and jobs of all clusters have the same ids.
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
        cls.addClassCleanup(subprocess.run, ["umount", "/dev/shm"], check=False)
        # Slurm looks up addresses of families that the machine has, and loopback alone does not count.
        subprocess.run(["ip", "-batch", "-"], check=True, text=True,
                       input="link set lo up\nlink add own type veth peer name other\naddr add 192.168.78.1/24 dev own\n"
                             "link set own up\nlink set other up\n")
        cls.addClassCleanup(subprocess.run, ["ip", "link", "del", "own"], check=False)
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
{cls.select}
MpiDefault=none
ReturnToService=2
KillWait=30
{cls.settings}
StateSaveLocation={cls.folder}/state
SlurmdSpoolDir={cls.folder}/spool-%n
SlurmctldPidFile={cls.folder}/slurmctld.pid
SlurmdPidFile={cls.folder}/slurmd-%n.pid
NodeName={','.join(NODES)} NodeHostname={host} NodeAddr=127.0.0.1 Port=[17011-17013] {cls.of_each_node}
{cls.partitions}
""")
        if cls.gres:
            (cls.folder / "gres.conf").write_text(cls.gres)
        os.environ["SLURM_CONF"] = str(conf)
        cls.addClassCleanup(os.environ.pop, "SLURM_CONF")
        cls.daemon("slurmctld", "-D", "-f", conf)
        for node in NODES:
            cls.daemon("slurmd", "-D", "-N", node, "-f", conf, "-d", shutil.which("slurmstepd"), log=node)

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

    BATCH_FILE = ROOT / "docs" / "examples" / "ddprun.sbatch"

    def batch(self, *words, **environment):
        """What a batch job printed, once it has ended well. (sbatch --wait looks after 2 s, and then after 8 s more.)"""
        file = self.folder / "batch"
        exports = "".join(f",{name}={value}" for name, value in environment.items())
        job = self.output_of("sbatch", "--parsable", f"--output={file}", f"--export=ALL{exports}", *words).strip()
        until(lambda: not re.search(r" JobState=(PENDING|RUNNING|COMPLETING) ", self.shown(job)), 120, lambda: self.shown(job))
        self.assertRegex(self.shown(job), r" JobState=COMPLETED (.*\n)*.* ExitCode=0:0", file.read_text())
        return file.read_text()

    def shown(self, job):
        return self.output_of("scontrol", "show", "job", job)

    def start_sleepers(self, *options):
        """Two workers on each node."""
        job = self.begin("srun", "-N3", ONE_EACH, *options, "--job-name=sleepers", DDPRUN, "--nproc-per-node=2",
                         "--no-python", "sleep", "600")
        until(lambda: len(running("sleep")) == 6 or job.poll() is not None, 60, "six workers")
        self.assertIsNone(job.poll())
        return job
