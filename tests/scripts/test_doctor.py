"""python -m ddprun.doctor: what each thing that a machine lacks costs, with pretended facts of the machine."""

import contextlib
import fnmatch
import importlib
import pathlib
import re
import resource
import socket
import sys
import tempfile
import unittest
from unittest import mock

import python_package

MIB = 1 << 20
UNREACHABLE = "other nodes can't reach this name: give them an address, and --local-addr here"


def entry(address):
    """What getaddrinfo returns for one address."""
    return (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))


class Doctor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        program = cls.folder / "program"
        program.write_text("#!/bin/sh\necho ddprun 1.2.3\n")
        program.chmod(0o755)
        packages = python_package.lay_out(cls.folder, program)
        sys.path.insert(0, str(packages))
        cls.addClassCleanup(sys.path.remove, str(packages))
        cls.doctor = importlib.import_module("ddprun.doctor")

    def found(self, section, **facts):
        """The findings of a section as (found, cost) by name; each fact stands in for what doctor.py has by that name, with _ for dots."""
        with contextlib.ExitStack() as stack:
            for name, fact in facts.items():
                target, _, attribute = name.rpartition("__")
                stack.enter_context(mock.patch.object(getattr(self.doctor, target) if target else self.doctor, attribute, fact))
            return {finding.name: (finding.found, finding.cost) for finding in section()}

    def test_a_cost_is_a_line_of_its_own_below_what_was_found(self):
        finding = self.doctor.Finding
        text = self.doctor.text([("One", [finding("gdb", "not found", "no frames"), finding("py-spy", "/bin/py-spy")]), ("Two", [])])
        self.assertEqual(text, f"One\n  gdb{' ' * 16}not found\n{' ' * 21}-> no frames\n  py-spy{' ' * 13}/bin/py-spy\nTwo")

    # --- Programs and Python ---

    def test_a_ddprun_that_does_not_run_can_start_nothing(self):
        own = self.doctor.program("ddprun")
        self.assertEqual(self.found(self.doctor.programs)["ddprun"], (f"{own}: ddprun 1.2.3", ""))
        self.assertEqual(self.found(self.doctor.programs, _first_line=lambda *_: None)["ddprun"],
                         (f"{own}: does not run", "nothing can be started (noexec, an older glibc?): type that path to see the error"))
        self.assertEqual(self.found(self.doctor.programs, program=lambda _: None)["ddprun"],
                         ("missing from this installation", "nothing can be started: pip install --force-reinstall ./ddprun-*.whl"))

    def test_a_python_exec_that_is_set_and_an_environment_of_another_ddprun_change_the_python_of_scripts(self):
        other = "/opt/other/bin/python"
        with mock.patch.dict(self.doctor.os.environ, {"PYTHON_EXEC": other}):
            self.assertEqual(self.found(self.doctor.python)["PYTHON_EXEC"], (other, "scripts run under this Python, whichever environment is active"))
        with mock.patch.dict(self.doctor.os.environ, {"PYTHON_EXEC": ""}):
            for prefix, own, told in (("/opt/env", "/opt/other/bin/ddprun", True), ("/opt/env", "/opt/env/bin/ddprun", False),
                                      ("/usr", "/opt/other/bin/ddprun", False)):
                found = self.found(self.doctor.python, sys__prefix=prefix, sys__base_prefix="/usr", program=lambda _, own=own: pathlib.Path(own))
                self.assertNotIn("PYTHON_EXEC", found)
                self.assertEqual(found.get("environment"), (f"{own} lies outside of {prefix}",
                                                            "scripts may run under another Python: see ddprun --dry-run") if told else None)

    def test_a_missing_pytorch_costs_nothing_but_the_scripts_that_import_it(self):
        for spec, expected in ((None, ("not in this environment", "none, unless your scripts import it")), ("a spec", ("found", ""))):
            with mock.patch("importlib.util.find_spec", lambda _, spec=spec: spec):
                self.assertEqual(self.found(self.doctor.python)["PyTorch"], expected)

    # --- System ---

    def test_a_kernel_without_pidfds_costs_the_wait_by_them_and_one_below_4_18_is_not_supported(self):
        pid, old = "without pidfds (5.4): workers are waited for by pid", "older than 4.18: not supported"
        for release, cost in (("6.1.0-13-amd64", ""), ("5.10.0", ""), ("5.4.0-42-generic", ""), ("5.3.18-lp152", pid), ("4.18.0-553.el8.x86_64", pid),
                              ("4.17.19", old), ("3.10.0-1160.el7.x86_64", old)):
            found = self.found(self.doctor.system, platform__release=lambda release=release: release, platform__machine=lambda: "x86_64")
            self.assertEqual(found["kernel"], (f"{release} on x86_64", cost))

    def test_an_older_or_another_libc_is_told_what_ddprun_needs(self):
        needs = "ddprun needs glibc 2.28 or newer"
        for libc, expected in ((("glibc", "2.28"), ("glibc 2.28", "")), (("glibc", "2.100"), ("glibc 2.100", "")), (("glibc", "2.27"), ("glibc 2.27", needs)),
                               (("", ""), ("unknown", needs)), (("musl", "3.0"), ("musl 3.0", needs))):
            self.assertEqual(self.found(self.doctor.system, platform__libc_ver=lambda libc=libc: libc)["libc"], expected)

    def test_cpus_are_those_of_this_process_of_those_of_the_machine(self):
        found = self.found(self.doctor.system, os__sched_getaffinity=lambda _: {0, 3, 5}, os__cpu_count=lambda: 8)
        self.assertEqual(found["CPUs"], ("3 usable of 8", ""))

    # --- GPUs ---

    def gpus(self, driver=True, nodes=2, missing=(), text="GPUs        2 (NVML)\n"):
        names = [f"/dev/nvidia{name}" for name in (*range(nodes), "ctl", "-uvm")]
        return self.found(self.doctor.gpus, os__path=mock.Mock(exists=lambda path: driver and path == "/proc/driver/nvidia/version"),
                          glob__glob=lambda pattern: [name for name in names if fnmatch.fnmatchcase(name, pattern)],
                          _loads=lambda library: library not in missing, dry_run=lambda: text)

    def test_without_a_driver_jobs_run_on_cpus_and_no_library_is_looked_for(self):
        self.assertEqual(self.gpus(driver=False, nodes=0, text="GPUs  none\n"),
                         {"ddprun finds": ("none", ""), "NVIDIA driver": ("not found", "jobs run on CPUs")})
        self.assertEqual(self.gpus(text="")["ddprun finds"], ("unknown", ""))

    def test_a_driver_without_gpus_is_a_container_started_without_them(self):
        self.assertEqual(self.gpus(nodes=0)["NVIDIA driver"],
                         ("0 GPUs in /dev", "jobs run on CPUs; start a container with its GPUs (docker: --gpus=all)"))

    def test_gpus_with_both_libraries_cost_nothing_with_a_driver_file_or_without(self):
        for driver in (True, False):
            self.assertEqual(self.gpus(driver), {"ddprun finds": ("2 (NVML)", ""), "NVIDIA driver": ("2 GPUs in /dev", ""),
                                                 "libnvidia-ml.so.1": ("loads", ""), "libcuda.so.1": ("loads", "")})

    def test_each_missing_library_of_the_driver_has_its_own_cost(self):
        for library, other, cost in (("libnvidia-ml.so.1", "libcuda.so.1", "ddprun finds GPUs by /dev alone"),
                                     ("libcuda.so.1", "libnvidia-ml.so.1", "no program can use the GPUs")):
            found = self.gpus(missing=[library])
            self.assertEqual((found[library], found[other]), (("not found", cost), ("loads", "")))

    def test_a_library_loads_or_does_not(self):
        self.assertTrue(self.doctor._loads("libc.so.6"))
        self.assertFalse(self.doctor._loads("libno-such-library.so.1"))

    # --- Containment ---

    def test_level_tree_costs_that_detached_processes_may_outlive_two_kills_at_once(self):
        cost = ("if ddprun and its agent are killed at the same instant, detached processes may live on; "
                "with --contain=cgroup or pidns none does")
        for text, expected in (("containment  tree\n", ("tree", cost)), ("containment  cgroup\n", ("cgroup", "")), ("containment  pidns\n", ("pidns", "")),
                               ("", ("unknown", "ddprun --dry-run does not report it"))):
            self.assertEqual(self.found(self.doctor.containment, dry_run=lambda text=text: text), {"level": expected})

    # --- Limits ---

    def limits(self, files=(1 << 20, 1 << 20), processes=100_000, core=resource.RLIM_INFINITY, cpus=8):
        values = {resource.RLIMIT_NOFILE: files, resource.RLIMIT_NPROC: (processes, 1 << 20), resource.RLIMIT_CORE: (core, resource.RLIM_INFINITY)}
        return self.found(self.doctor.limits, resource__getrlimit=values.__getitem__, os__cpu_count=lambda: cpus)

    def test_enough_of_everything_costs_nothing(self):
        self.assertEqual(self.limits(files=(1024, 4096)), {"open files": ("1024, may be raised to 4096", ""), "processes": ("100000", ""),
                                                           "core files": ("unlimited", "")})

    def test_few_open_files_cost_workers_and_only_the_hard_limit_counts(self):
        cost = "one worker for each CPU needs up to 72: ulimit -Hn"  # 32 + 5 * 8
        self.assertEqual(self.limits(files=(64, 71))["open files"], ("64, may be raised to 71", cost))
        self.assertEqual(self.limits(files=(64, 72))["open files"], ("64, may be raised to 72", ""))
        self.assertEqual(self.limits(files=(64, resource.RLIM_INFINITY))["open files"], ("64, may be raised to unlimited", ""))

    def test_few_processes_may_cost_workers(self):
        self.assertEqual(self.limits(processes=1023)["processes"],
                         ("1023", "threads of all your programs count: workers may fail to start (ulimit -u)"))
        self.assertEqual(self.limits(processes=1024)["processes"], ("1024", ""))
        self.assertEqual(self.limits(processes=resource.RLIM_INFINITY)["processes"], ("unlimited", ""))

    def test_no_core_files_cost_those_of_crashes(self):
        self.assertEqual(self.limits(core=0)["core files"], ("0", "a crash leaves no core file (ulimit -c unlimited)"))

    # --- Folders ---

    def shared_memory(self, free, writable=True):
        def usage(_):
            if free is None:
                raise FileNotFoundError(2, "No such file or directory")
            return mock.Mock(free=free)
        return self.found(self.doctor.folders, shutil__disk_usage=usage, os__access=lambda *_: writable)["/dev/shm"]

    def test_a_small_a_closed_and_a_missing_dev_shm_have_their_costs(self):
        disk = "progress pages lie in TMPDIR, on a disk"
        self.assertEqual(self.shared_memory(64 * MIB), ("64 MiB free", ""))
        self.assertEqual(self.shared_memory(64 * MIB - 1), ("63 MiB free", "little: data loaders of PyTorch may fail with a bus error (docker: --shm-size=1g)"))
        self.assertEqual(self.shared_memory(64 * MIB, writable=False), ("not writable", disk))
        self.assertEqual(self.shared_memory(MIB, writable=False), ("not writable", disk))
        self.assertEqual(self.shared_memory(None), ("missing", disk))

    def test_a_tmpdir_that_cannot_be_written_to_costs_the_default_place_of_logs(self):
        cost = "no folder that you can write to: --log-dir has to name one"
        program = self.folder / "program"
        for wanted, access, expected in ((self.folder, True, ""), (self.folder, False, cost), (program, True, cost), (self.folder / "missing", True, cost)):
            with mock.patch.dict(self.doctor.os.environ, {"TMPDIR": str(wanted)}):
                self.assertEqual(self.found(self.doctor.folders, os__access=lambda *_, access=access: access)["TMPDIR"], (str(wanted), expected))

    # --- Stacks of hangs ---

    def test_each_missing_debugger_has_its_own_cost(self):
        costs = {"py-spy": "a hang shows no Python lines (pip install py-spy)", "gdb": "a hang shows no C frames"}
        for lacking, cost in costs.items():
            found = self.found(self.doctor.debuggers, shutil__which=lambda name, lacking=lacking: None if name == lacking else f"/usr/bin/{name}")
            other, = costs.keys() - {lacking}
            self.assertEqual(found, {lacking: ("not found", cost), other: (f"/usr/bin/{other}", "")})

    # --- Several nodes ---

    def protection(self, libraries, socket_file):
        return self.found(self.doctor.protection, _loads=libraries.__contains__, MUNGE_SOCKET=socket_file)

    def test_without_openssl_no_connection_can_be_encrypted(self):
        cost = "--rdzv-tls and rdzvd --tls can't be used (Debian: libssl3; RHEL: openssl-libs)"
        for libraries, expected in (((), ("not found", cost)), (("libssl.so.1.1",), ("libssl.so.1.1", "")), (("libssl.so.3",), ("libssl.so.3", "")),
                                    (("libssl.so.1.1", "libssl.so.3"), ("libssl.so.3", ""))):
            self.assertEqual(self.protection(libraries, self.folder)["OpenSSL"], expected)

    def test_without_munge_or_its_daemon_the_nodes_of_a_user_need_a_secret(self):
        cost = "nodes of one user need a secret to know each other (ddprun --make-secret)"
        missing = self.folder / "munge.socket.2"
        for socket_file in (self.folder, missing):
            self.assertEqual(self.protection((), socket_file)["MUNGE"], ("not found", cost))
        self.assertEqual(self.protection(("libmunge.so.2",), missing)["MUNGE"], (f"libmunge.so.2, but no {missing}", cost))
        self.assertEqual(self.protection(("libmunge.so.2",), self.folder)["MUNGE"], ("libmunge.so.2", ""))

    # --- Network ---

    def test_the_ports_are_the_defaults_of_jobs_of_several_nodes(self):
        self.assertEqual(self.doctor.PORTS, (29400, 29500))

    def test_a_port_in_use_has_to_be_replaced_by_another(self):
        with socket.create_server(("", 0)) as used:
            port = used.getsockname()[1]
            found = self.found(self.doctor.ports, PORTS=(port,))
        self.assertEqual(found[f"port {port}"], ("Address already in use", "jobs of several nodes take it by default; give another port"))
        self.assertEqual(self.found(self.doctor.ports, PORTS=(0,))["port 0"], ("free", ""))  # of all ports one is

    def host_name(self, *addresses):
        def resolve(*_):
            if not addresses:
                raise socket.gaierror(-2, "Name or service not known")
            return [entry(address) for address in addresses]
        return self.found(self.doctor.ports, PORTS=(), socket__gethostname=lambda: "node7", socket__getaddrinfo=resolve)["host name"]

    def test_a_host_name_that_is_only_a_loopback_address_is_no_use_to_other_nodes(self):
        for addresses in (("127.0.1.1",), ("127.0.0.1", "::1")):
            self.assertEqual(self.host_name(*addresses), (f"node7: {', '.join(addresses)}", UNREACHABLE))
        self.assertEqual(self.host_name("::1", "10.0.0.7", "10.0.0.7"), ("node7: 10.0.0.7, ::1", ""))

    def test_a_host_name_without_an_address_is_no_use_to_other_nodes(self):
        self.assertEqual(self.host_name(), ("node7: Name or service not known", UNREACHABLE))

    # --- All of it ---

    def test_every_section_is_printed_on_this_machine(self):
        text = self.doctor.text((title, find()) for title, find in self.doctor.SECTIONS)
        self.assertEqual(re.findall(r"(?m)^(\S.*)$", text), ["Programs", "Python", "System", "GPUs", "Containment", "Limits", "Folders",
                                                             "Stacks of hangs", "Several nodes", "Network"])


if __name__ == "__main__":
    unittest.main()
