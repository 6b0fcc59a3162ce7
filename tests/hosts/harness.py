"""Hosts on one machine, without root: network namespaces at a bridge, each with an own host name and /etc/hosts.

A test module calls enter_namespaces() first: the whole test program starts again as process 1 of a process namespace, so
that nothing outlives it, however it ends. Where a machine forbids that, or lacks iproute2, the tests are skipped with the
reason. All hosts share the file system, the process ids and the clocks of this machine (a preloaded libshifted_clock.so gives
a host's programs another wall clock, slow_link.py a host a slow link).
"""

import contextlib
import importlib.util
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BUILD = pathlib.Path(os.environ.get("DDPRUN_TEST_BUILD", "."))
BIN = pathlib.Path(os.environ.get("DDPRUN_TEST_BIN", BUILD / "bin"))
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

import namespaces  # noqa: E402
from namespaces import until  # noqa: E402
WORKERS = HERE / "workers"
MEETING_WORKER = BUILD / "tests" / "meeting_worker"
JOB_WORKER = BUILD / "tests" / "job_worker"

INSIDE = "DDPRUN_TEST_INSIDE_NAMESPACES"
NAMESPACES = ["unshare", "--map-root-user", "--net", "--mount", "--propagation", "private", "--pid", "--fork",
              "--kill-child", "--mount-proc"]
# What hosts are made of, tried once before.
REHEARSAL = """set -e
ip link add hub type bridge
ip link add port type veth peer name end
ip link set port master hub up
bridge link set dev port state 0
unshare --net --uts --mount --propagation private sh -c 'mount --bind /etc/hosts /etc/hosts; mount -t tmpfs tmpfs /dev/shm; hostname node'
"""
# Above 127.0.0.1: gloo connects from the higher address to the lower, so a rank at loopback does harm only there.
SWITCH_ADDR = "192.168.77.254"


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pytorch = load("pytorch_harness", HERE.parent / "pytorch" / "harness.py")
why_not = ""


def enter_namespaces():
    """Does not return where it starts the test program again."""
    global why_not
    why_not = namespaces.missing(("unshare", "nsenter", "ip", "bridge", "hostname"), "scripts/install-deps --tests")
    why_not = why_not or namespaces.enter(NAMESPACES, INSIDE, ["sh", "-c", REHEARSAL])


def checked(words, **more):
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


class Command:
    """A program on a host; its output goes to files, so it never waits for this process."""

    def __init__(self, host, words, environment, folder):
        self.host = host
        self.words = [str(word) for word in words]
        self.files = {name: folder / name for name in ("out", "err")}
        with open(self.files["out"], "wb") as out, open(self.files["err"], "wb") as err:
            enter = ["nsenter", f"--target={host.holder.pid}", "--net", "--mount", "--uts",
                     "sh", "-c", 'cd "$0" && exec "$@"', str(folder)]
            self.process = subprocess.Popen([*enter, *self.words], env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=err, start_new_session=True)

    @property
    def out(self):
        return self.files["out"].read_text(errors="replace")

    @property
    def err(self):
        return self.files["err"].read_text(errors="replace")

    @property
    def status(self):
        return self.process.poll()

    def __str__(self):
        return (f"{self.host.name}$ {' '.join(self.words)}\nstatus {self.status}\n"
                f"--- stdout\n{self.out}\n--- stderr\n{self.err}")

    def wait(self, limit=30):
        """The exit status."""
        until(lambda: self.status is not None, limit, lambda: f"the end of\n{self}")
        return self.status

    def wait_for(self, pattern, limit=30, count=1):
        """Until the pattern was found so often in its stdout and stderr."""

        def found():
            matches = re.findall(pattern, self.out + self.err)
            return matches if len(matches) >= count else None

        def seen():
            return found() or self.status is not None

        until(seen, limit, lambda: f"{count} x {pattern!r} of\n{self}")
        if not found():
            raise AssertionError(f"ended without {count} x {pattern!r}:\n{self}")
        return found()

    def agent(self):
        """The process id of ddprun's agent: the child of its first process, the warden."""
        return int(until(lambda: (proc(self.process.pid, f"task/{self.process.pid}/children") or "").split(), 10,
                         "an agent")[0])


def proc(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return None


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Host:
    def __init__(self, number, folder):
        self.name = f"node{number}"
        self.addr = f"192.168.77.{number}"
        self.port = f"port{number}"  # at the switch
        self.folder = folder / self.name
        self.folder.mkdir()
        self.names = self.folder / "hosts"
        self.commands = 0
        self.holder = None
        self.network = None

    def boot(self, names, switch):
        """Its namespaces live as long as its first process, `holder`."""
        self.names.write_text(names)
        (self.folder / "nsswitch.conf").write_text("hosts: files dns\npasswd: files\ngroup: files\n")
        (self.folder / "resolv.conf").write_text(f"nameserver {SWITCH_ADDR}\n")
        script = ('for name in hosts nsswitch.conf resolv.conf; do '
                  '[ ! -e /etc/$name ] || mount --bind $name "$(readlink -f /etc/$name)" || exit; done; '
                  'mount -t tmpfs tmpfs /dev/shm && hostname "$0" && ip link set lo up && echo ready && exec cat')
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "--propagation", "private", "sh", "-c", script, self.name],
            cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.holder.stdout.readline() != b"ready\n":
            raise AssertionError(f"{self.name} does not start")
        self.network = os.readlink(f"/proc/{self.holder.pid}/ns/net")
        checked(["ip", "-batch", "-"], input=f"link add {self.port} type veth peer name eth0 netns {self.holder.pid}\n"
                                             f"link set {self.port} master {switch} up\n")
        checked(["nsenter", f"--target={self.holder.pid}", "--net", "ip", "-batch", "-"],
                input=f"addr add {self.addr}/24 dev eth0\nlink set eth0 up\n")

    def route_to_world(self):
        checked(["nsenter", f"--target={self.holder.pid}", "--net", "ip", "route", "add", "default", "via", SWITCH_ADDR])

    def add_addr(self, addr):
        checked(["nsenter", f"--target={self.holder.pid}", "--net", "ip", "addr", "add", f"{addr}/24", "dev", "eth0"])

    def processes(self):
        """Of all that was started on it, also in process namespaces below."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != self.holder.pid:
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{entry}/ns/net") == self.network:
                        found.append(int(entry))
        return found

    def add_name(self, name, addr):
        # In place: its /etc/hosts is this very file.
        with open(self.names, "a", encoding="utf-8") as names:
            names.write(f"{addr} {name}\n")

    def move_name(self, name, addr):
        text = self.names.read_text(encoding="utf-8")
        with open(self.names, "w", encoding="utf-8") as names:
            names.write(re.sub(rf"(?m)^.* {re.escape(name)}$", f"{addr} {name}", text))

    def remove_name(self, name):
        text = self.names.read_text(encoding="utf-8")
        with open(self.names, "w", encoding="utf-8") as names:
            names.write(re.sub(rf"(?m)^.* {re.escape(name)}\n", "", text))

    def cut(self):
        """Silently: no side is told, and no connection ends."""
        checked(["bridge", "link", "set", "dev", self.port, "state", "0"])

    def heal(self):
        checked(["bridge", "link", "set", "dev", self.port, "state", "3"])

    def cut_towards(self, other):
        """What this host sends to the other gets lost; the other way works."""
        self.lose_packets_to(other.addr)

    def lose_packets_to(self, addr):
        self.neighbour(["replace", addr, "lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", "eth0"])

    def heal_towards(self, other):
        self.neighbour(["del", other.addr, "dev", "eth0"])

    def neighbour(self, words):
        checked(["nsenter", f"--target={self.holder.pid}", "--net", "ip", "neighbour", *words])

    def lose_power(self):
        """Nobody hears of it but by silence. The host itself stays, as after a reboot, without its link."""
        self.cut()
        self.kill()

    def kill(self):
        def killed():
            left = self.processes()
            for pid in left:
                kill(pid)
            return not left

        until(killed, 20, lambda: f"{self.name} still runs {[proc(pid, 'cmdline') for pid in self.processes()]}")


class NameServer:
    """Knows no name, and answers so after `delay` seconds, at the switch."""

    def __init__(self, delay):
        self.delay = delay
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((SWITCH_ADDR, 53))
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        waiting = []
        while True:
            self.socket.settimeout(max(waiting[0][0] - time.monotonic(), 0.001) if waiting else None)
            try:
                query, asker = self.socket.recvfrom(1500)
                if not query:
                    return
                waiting.append((time.monotonic() + self.delay, query, asker))
            except socket.timeout:
                _, query, asker = waiting.pop(0)
                # NXDOMAIN, with the question only.
                self.socket.sendto(query[:2] + b"\x81\x83" + query[4:6] + bytes(4) + b"\0\0" + query[12:], asker)

    def close(self):
        self.socket.sendto(b"", (SWITCH_ADDR, 53))
        self.thread.join()
        self.socket.close()


class Hosts:
    """node1, node2, ... at one switch, with addresses 192.168.77.1, .2, ...; `with Hosts(3) as hosts: hosts[0]` is node1.

    name_delay: there is a name server, which says after so many seconds that it knows no name; and nobody's own name is in
    its own /etc/hosts. Without it every look-up beyond /etc/hosts fails at once.
    loopback_names: each host's own name is 127.0.1.1 in its own /etc/hosts, as on Debian; the others know its address.
    """

    def __init__(self, count, loopback_names=False, default_route=True, name_delay=None):
        self.count = count
        self.loopback_names = loopback_names
        self.default_route = default_route
        self.name_delay = name_delay
        self.name_server = None
        self.hosts = []
        self.commands = []

    def __getitem__(self, index):
        return self.hosts[index]

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="hosts")
        self.folder = pathlib.Path(self.temporary.name)
        self.folder.chmod(0o755)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        checked(["ip", "-batch", "-"], input=f"link add hub type bridge\naddr add {SWITCH_ADDR}/24 dev hub\n"
                                             "link set hub up\nlink set lo up\n")
        if self.name_delay is not None:
            self.name_server = NameServer(self.name_delay)
        for number in range(1, self.count + 1):
            self.hosts.append(Host(number, self.folder))
        for host in self.hosts:
            names = "127.0.0.1 localhost\n"
            for other in self.hosts:
                if other is host and self.name_delay is not None:
                    continue
                own = self.loopback_names and other is host
                names += f"{'127.0.1.1' if own else other.addr} {other.name}\n"
            host.boot(names, "hub")
            if self.default_route:
                host.route_to_world()

    def __exit__(self, *_):
        for host in self.hosts:
            if host.holder is not None:
                with contextlib.suppress(OSError, AssertionError):
                    host.kill()
                host.holder.kill()
                host.holder.wait()
                host.holder.stdin.close()
                host.holder.stdout.close()
        for command in self.commands:
            command.process.wait()
        if self.name_server is not None:
            self.name_server.close()
        subprocess.run(["ip", "link", "del", "hub"], check=False, capture_output=True)
        for host in self.hosts:  # the kernel removes a dead host's port only some time later
            subprocess.run(["ip", "link", "del", host.port], check=False, capture_output=True)
        self.temporary.cleanup()

    def environment(self, host, **more):
        """This process's, without what would steer ddprun or a worker; each host has its own ~/.config."""
        kept = {name: value for name, value in os.environ.items() if not pytorch.FOREIGN.match(name)}
        return kept | {"XDG_CONFIG_HOME": str(host.folder / "config"), "PYTHONDONTWRITEBYTECODE": "1",
                       "HOSTS": str(self.folder)} | more

    def run(self, host, words, **environment):
        """Starts a program on the host, in a new folder."""
        host.commands += 1
        folder = host.folder / f"command{host.commands}"
        folder.mkdir()
        command = Command(host, words, self.environment(host, **environment), folder)
        self.commands.append(command)
        return command

    def ddprun(self, host, *words, **environment):
        return self.run(host, [BIN / "ddprun", *words], **environment)

    def leftovers(self):
        return [f"{host.name}: {(proc(pid, 'cmdline') or '').replace(chr(0), ' ')}"
                for host in self.hosts for pid in host.processes()]


class HostsTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if why_not:
            raise unittest.SkipTest(why_not)

    def finish(self, hosts, commands, limit=30, status=0):
        """All end with that status, and nothing is left on any host."""
        for command in commands:
            command.wait(limit)
        everything = "\n".join(map(str, commands))
        self.assertEqual([command.status for command in commands], [status] * len(commands), everything)
        until(lambda: not hosts.leftovers(), 5, lambda: f"{hosts.leftovers()} left\n{everything}")

    def met(self, commands):
        """What the meeting_workers printed: their ranks, and the set of the places where they met."""
        lines = "".join(command.out for command in commands)
        ranks = sorted(re.findall(r"met rank=(\d+/\d+) ", lines))
        return ranks, set(re.findall(r" at (\S+)", lines))
