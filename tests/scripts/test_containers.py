"""ddprun in containers: the command lines of docs/containers.md and its Dockerfile, and ddprun as the first process."""

import importlib.util
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "containers"
sys.path.insert(0, str(ROOT / "tests" / "support"))

from dry_run import BIN, UNSHARE, DryRunTest, may_unshare  # noqa: E402

HAS_YAML = importlib.util.find_spec("yaml") is not None


class Examples(DryRunTest):
    def test_every_docker_command_of_the_page_is_one_that_ddprun_accepts(self):
        page = (ROOT / "docs" / "containers.md").read_text(encoding="utf-8")
        lines = re.findall(r"(?m)^    (docker run .*)$", page)
        self.assertGreaterEqual(len(lines), 4)
        for line in lines:
            words = shlex.split(line)
            image = next(place for place, word in enumerate(words) if word in ("ddprun", "training"))
            self.assertTrue(all(word.startswith("-") for word in words[2:image]), f"{line}: options with a value are written with =")
            plan = self.plan(words[image + 1:])
            if "node0:29400" in line:
                self.assert_nodes(plan, 2, "node0:29400")

    def test_the_dockerfile_has_ddprun_itself_as_the_first_process(self):
        lines = [line for line in (FOLDER / "Dockerfile").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        self.assertEqual([line.split()[0] for line in lines], ["FROM", "RUN", "ENTRYPOINT"])
        # As a list: Docker gives a text to a shell.
        self.assertEqual(json.loads(lines[-1].removeprefix("ENTRYPOINT ")), ["ddprun"])
        self.assertRegex(lines[0], r"^FROM debian:\d+-slim$")

    def seconds_to_stop(self, *options):
        """The longest that ddprun needs after SIGTERM: its two times, and 5 s for the rest."""
        done = subprocess.run([BIN / "ddprun", "--dry-run", *options, "/bin/true"], capture_output=True, text=True, check=True, timeout=60, stdin=subprocess.DEVNULL)
        return sum(float(re.search(rf"(?m)^{name} ([0-9.]+) s$", done.stdout).group(1)) for name in ("grace period", "kill timeout")) + 5

    def test_the_times_to_stop_of_the_pages_are_enough_for_ddprun(self):
        texts = {name: " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split()) for name in ("containers.md", "cookbook/containers.md")}
        for name, text in texts.items():
            given = re.findall(r"--(?:stop-timeout|time)=(\d+)", text)
            self.assertTrue(given, name)
            self.assertGreaterEqual(min(map(int, given)), self.seconds_to_stop(), name)
            shorter = re.findall(r"`--grace-period=(\d+) --kill-timeout=(\d+)`[^(]*\((?:up to )?(\d+) s\)", text)
            self.assertEqual(len(shorter), text.count("--grace-period="), name)
            for grace, kill, seconds in shorter:
                self.assertEqual(self.seconds_to_stop(f"--grace-period={grace}", f"--kill-timeout={kill}"), int(seconds), name)
            self.assertLess(min(int(seconds) for _, _, seconds in shorter), 10, f"{name}: Docker's time")

    @unittest.skipUnless(HAS_YAML, "this Python has no yaml (python3-yaml)")
    def test_the_workflows_are_well_formed(self):
        import yaml

        for path in (ROOT / ".github" / "workflows").iterdir():
            self.assertIn("jobs", yaml.safe_load(path.read_text(encoding="utf-8")), path.name)


@unittest.skipUnless(may_unshare(), "no namespaces of processes here (unshare)")
class FirstProcess(unittest.TestCase):
    """ddprun is PID 1 of a namespace, as in a container without --init."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, script, *options):
        process = subprocess.Popen([*UNSHARE, str(BIN / "ddprun"), *options, "--no-python", "sh", "-c", script], text=True, cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, condition, what):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.01)

    def child_of(self, process):
        """The first process of the namespace, as it is seen from outside."""
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        self.wait_for(lambda: children.read_text().split(), "unshare has no child")
        return int(children.read_text().split()[0])

    def test_it_is_the_first_process_and_ends_with_the_exit_code_of_the_job(self):
        process = self.start("cat /proc/1/comm; exit 3", "--nproc-per-node=1", "--output=raw")
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (3, "ddprun\n"), err)

    def test_orphans_are_reaped_while_the_job_runs(self):
        # Processes end after their parents; none of them stays as a zombie.
        script = ("for i in 1 2 3; do sh -c 'sleep 0.1 &'; done; i=0; while [ $i -lt 200 ]; do cat /proc/[0-9]*/stat >all 2>/dev/null; "
                  "grep -q ' (sleep) ' all || { echo gone; exit 0; }; sleep 0.1; i=$((i+1)); done; exit 4")
        # Its own waiting is a `sleep`, too, but never at the time of the look.
        process = self.start(script, "--nproc-per-node=1", "--output=raw")
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (0, "gone\n"), err)

    def test_detached_processes_end_with_the_job(self):
        marker = f"{self.folder}/alive"
        script = f"setsid sh -c 'trap \"\" TERM HUP; while sleep 0.05; do date +%s%N >{marker}; done' & while ! [ -e {marker} ]; do sleep 0.01; done"
        process = self.start(script, "--nproc-per-node=1", "--grace-period=0.2")
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        last = pathlib.Path(marker).read_text()
        time.sleep(0.3)
        self.assertEqual(pathlib.Path(marker).read_text(), last)

    def test_sigterm_reaches_the_workers_and_is_told_by_the_exit_code(self):
        ready = self.folder / "ready"
        script = f"trap 'echo saved; exit 0' TERM; touch {ready}; while :; do sleep 0.05; done"
        process = self.start(script, "--nproc-per-node=1", "--output=raw")
        self.wait_for(ready.exists, "the worker did not start")
        os.kill(self.child_of(process), signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (143, "saved\n"), err)

    def test_signals_that_it_does_not_handle_do_no_harm(self):
        ready = self.folder / "ready"
        script = f"touch {ready}; while [ -e {ready} ]; do sleep 0.05; done; echo went on"
        process = self.start(script, "--nproc-per-node=1", "--output=raw")
        self.wait_for(ready.exists, "the worker did not start")
        inside = f"kill -USR1 1; kill -TSTP 1; rm {ready}"
        subprocess.run(["nsenter", f"--target={self.child_of(process)}", "--user", "--preserve-credentials", "--pid", "sh", "-c", inside], check=True)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (0, "went on\n"), err)


if __name__ == "__main__":
    unittest.main()
