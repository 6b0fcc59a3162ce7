"""What a worker sees of how it was started: the same with --preload as without it, but for the differences listed here, each
with its reason. docs/preload.md has the same list for people."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

from preload_job import BIN, SANITIZER_IN_NAMESPACE, PreloadTest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from worker_differences import differences, make_unusual  # noqa: E402

DUMP = pathlib.Path(__file__).resolve().parents[1] / "pytorch" / "workers" / "dump.py"
ARGUMENTS = ["--lr", "0.1", "a b", "", "${local_rank}"]
PRELOADED = "json,decimal,random,multiprocessing,warnings"


def names(*patterns):
    return lambda ordinary, preloaded: not set(ordinary) - set(preloaded) and all(
        any(re.fullmatch(pattern, name) for pattern in patterns) for name in set(preloaded) - set(ordinary))


def anything(_, __):
    return True


# (path, whether these values may differ, why)
LISTED = [
    ("python/modules", anything, "what was imported; compared by the module itself, below"),
    ("python/path cache", names(r".*"), "folders in which modules were looked for"),
    ("python/collector/frozen", lambda ordinary, preloaded: ordinary == 0 < preloaded,
     "what was imported is not looked at again, so that its memory stays shared"),
    ("python/atexit", lambda ordinary, preloaded: preloaded == ordinary + 1, "gc.unfreeze, at the end of the worker"),
    ("python/variables of the process", anything,
     "/proc/PID/environ is of the importing process; os.environ is the worker's own"),
    ("command line", lambda ordinary, preloaded: ordinary[:-1] == preloaded[:-1],
     "/proc/PID/cmdline is of the importing process, too: an argument that differs between workers is there rank 0's"),
    ("environment/DDPRUN_SOCKET", anything, "the name of another job's"),
    ("environment/(MASTER_PORT|DDPRUN_PROGRESS_FILE|TORCHELASTIC_(ERROR_FILE|RUN_ID))", anything, "another job's"),
    ("namespaces/(mnt|pid|pid_for_children)", anything, "another job's"),
]


class Sees(PreloadTest):
    def seen_by_workers(self, options, program, before=None, **variables):
        told = self.folder / "told"
        told.mkdir()
        with open(DUMP, encoding="utf-8") as stdin:
            done = subprocess.run([BIN / "ddprun", *options, *program, *ARGUMENTS],
                                  env=self.environment(DUMP_FOLDER=str(told), **variables), cwd=self.folder, text=True,
                                  stdin=stdin, capture_output=True, preexec_fn=before, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("imports for itself", done.stderr)
        seen = [json.loads(path.read_text()) for path in sorted(told.iterdir())]
        shutil.rmtree(told)
        return seen

    def compare(self, *options, program, **settings):
        ordinary = self.seen_by_workers(options, program, **settings)
        preloaded = self.seen_by_workers([f"--preload={PRELOADED}", *options], program, **settings)
        self.assertEqual(len(ordinary), len(preloaded))
        unlisted = [(rank, *difference) for rank, (one, other) in enumerate(zip(ordinary, preloaded))
                    for difference in differences(one, other)
                    if not any(re.fullmatch(path, difference[0]) and may(*difference[1:]) for path, may, _ in LISTED)]
        self.assertEqual(unlisted, [], "(rank, what, without --preload, with it)")
        return ordinary, preloaded

    def test_every_listed_difference_is_documented(self):
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "preload.md").read_text(encoding="utf-8")
        for word in ("/proc/PID/environ", "gc.freeze", "sys.path_importer_cache"):
            self.assertIn(word, page)

    def test_two_workers_with_a_script(self):
        self.compare("--nproc-per-node=2", program=[self.script(DUMP.read_text())])

    def test_one_worker_whose_streams_are_ours(self):
        self.compare("--output=raw", program=[self.script(DUMP.read_text())])

    def test_one_worker_whose_output_is_on_a_terminal_of_its_own(self):
        self.compare("--output=pty", program=[self.script(DUMP.read_text())])

    def test_a_module_of_a_package(self):
        package = self.folder / "package"
        package.mkdir()
        (package / "__init__.py").write_text("")
        shutil.copy(DUMP, package / "dump.py")
        self.compare("-m", program=["package.dump"])

    def test_a_folder_and_a_zip_file_with_a_main_module(self):
        folder = self.folder / "program"
        folder.mkdir()
        shutil.copy(DUMP, folder / "__main__.py")
        self.compare(program=[sys.executable, str(folder)])
        with zipfile.ZipFile(self.folder / "program.zip", "w") as archive:
            archive.write(DUMP, "__main__.py")
        self.compare(program=[sys.executable, str(self.folder / "program.zip")])

    def test_text_on_the_command_line(self):
        self.compare(program=[sys.executable, "-c", DUMP.read_text()])

    def test_options_of_python(self):
        script = self.script(DUMP.read_text())
        self.compare(program=[sys.executable, "-X", "dev", "-W", "error::BytesWarning", "-b", "-O", script])

    def test_unusual_limits_masks_and_priorities(self):
        self.compare("--nproc-per-node=2", program=[self.script(DUMP.read_text())], before=make_unusual)

    def test_each_worker_on_its_own_cpus(self):
        self.compare("--nproc-per-node=2", "--numa-binding=exclusive", program=[self.script(DUMP.read_text())])

    def test_containment_by_a_pid_namespace(self):
        if os.geteuid() != 0:
            self.skipTest("only root can make a pid namespace")
        self.compare("--contain=pidns", "--nproc-per-node=2", program=[self.script(DUMP.read_text())],
                     ASAN_OPTIONS=SANITIZER_IN_NAMESPACE)

    def test_of_the_modules_only_the_named_ones_are_there_before(self):
        script = self.script(DUMP.read_text())
        (ordinary,) = self.seen_by_workers([], [script])
        (preloaded,) = self.seen_by_workers(["--preload=colorsys"], [script])
        more = set(preloaded["python"]["modules"]) - set(ordinary["python"]["modules"])
        self.assertIn("colorsys", more)
        self.assertLessEqual(more, {"colorsys", "_socket"}, "and nothing of ours")
