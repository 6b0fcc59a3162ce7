"""What a worker sees of how it was started: the same under ddprun as under torchrun, but for the differences listed
here, each with its reason. docs/pytorch.md has the same list for people."""

import json
import os
import pathlib
import re
import signal
import sys
import unittest

from harness import BIN, WORKERS, TorchTest, run, with_each_torchrun

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from worker_differences import differences, make_unusual  # noqa: E402

SAME_ARGUMENTS = ["--max_restarts=2", "--role=trainer", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0",
                  "--rdzv_id=job", "--monitor_interval=0.1"]
SCRIPT_ARGUMENTS = ["--lr", "0.1", "--nproc-per-node=9", "${local_rank}", "$local_rank", "a b", ""]


def text(pattern):
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def only(*values):
    return lambda value: value in values


# (path, what torchrun has, what ddprun has, why). A path is a regular expression. None: the entry is not there.
LISTED = [
    ("environment/DDPRUN_ROUND", only(None), only("0"), "ours"),
    ("environment/DDPRUN_EPOCH", only(None), only("0"), "ours"),
    ("environment/DDPRUN_PROGRESS_FILE", only(None), text(r"/.+_progress"), "ours"),
    ("environment/DDPRUN_SOCKET", only(None), text(r"@ddprun/\d+/.+"), "ours"),
    ("environment/MASTER_ADDR", text(r".+"), only("127.0.0.1"),
     "one machine's job listens on loopback only; torchrun's agents listen everywhere and give the machine's name"),
    ("environment/MASTER_PORT", text(r"\d+"), text(r"\d+"), "chosen by the kernel"),
    ("environment/TORCHELASTIC_ERROR_FILE", text(r"/.+/error\.json"), text(r"/.+error\.json"),
     "in a folder of its own that is removed at the end"),
    ("error file/folder's mode", text("0o.*"), only("0o40700"), "it may hold what others must not read"),
    ("environment/_", text(r".*"), text(r".*"), "the shell's name of the launcher"),
    ("memory killer's adjustment", only(0), only(100), "a worker is a better victim than its launcher"),
    ("parent death signal", only(0), only(signal.SIGKILL), "a worker never outlives ddprun"),
]

# What later torchruns do differently from 1.13's, and ddprun as they.
LISTED_FOR_1_13 = [
    ("environment/TORCHELASTIC_USE_AGENT_STORE", only("False"), only("True"), "its agents hosted no store for workers"),
    ("environment/TORCHELASTIC_SIGNALS_TO_HANDLE", only(None), text("SIGTERM,.*"), "came with 2.9"),
    ("environment/TORCH_NCCL_ASYNC_ERROR_HANDLING", only(None), only("1"), "the name since 2.2"),
    ("environment/NCCL_ASYNC_ERROR_HANDLING", only("1"), only(None), "the name until 2.1; later ones warn about it"),
    ("is a leader of a (session|group)", only(False), only(True), "later torchruns start workers in sessions"),
]

# With one worker: its stdout is copied with its stderr, because both go to one file.
COPIED = [("descriptors/[12]", text(r"/.+/output"), only("pipe"), "so that the report names the cause; --output=raw does not")]

# With several workers.
STREAMS = [
    ("descriptors/[12]", text(r"/.+/output"), only("pipe"), "ddprun makes whole lines of them; --output=raw does not"),
    ("environment/PYTHONUNBUFFERED", only(None), only("1"), "with such pipes: for Python that a worker starts"),
    ("descriptors/0", text(r"/.+/input"), only("/dev/null"), "stdin is rank 0's; --stdin=all shares it"),
    ("environment/PYTHONBREAKPOINT", only(None), text(r"rank \d+ does not stop here.*"), "it has no stdin: rank 0 stops alone"),
]

# Where SIGHUP was ignored.
IGNORED = [
    ("status/SigIgn", text(r"[0-9a-f]+0"), text(r"[0-9a-f]+1"),
     "SIGHUP stays ignored under nohup; torchrun catches it, so its workers die of it"),
]


def is_listed(listed, path, torchruns, ddpruns):
    return any(re.fullmatch(pattern, path) and of_torchrun(torchruns) and of_ddprun(ddpruns)
               for pattern, of_torchrun, of_ddprun, _ in listed)


class Environment(TorchTest):
    def seen_by_workers(self, launcher, name, torch, workers, program=(WORKERS / "dump.py",), before=None):
        """Runs dump.py under the launcher; gives what each rank saw."""
        told = self.folder / name
        told.mkdir()
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        (work / "input").write_text("text on stdin\n")
        environment = torch.environment(DUMP_FOLDER="../told")
        environment["PATH"] = str(pathlib.Path(torch.python).parent) + ":" + environment["PATH"]
        (self.folder / "told").symlink_to(told)
        with open(work / "input", encoding="utf-8") as stdin, open(work / "output", "w", encoding="utf-8") as output:
            result = run([*launcher, f"--nproc_per_node={workers}", *SAME_ARGUMENTS, *program, *SCRIPT_ARGUMENTS],
                         environment, work, stdin=stdin, stdout=output, stderr=output, preexec_fn=before)
        (self.folder / "told").unlink()
        self.assertEqual(result.status, 0, f"{result}{(work / 'output').read_text()}")
        seen = [json.loads((told / f"{rank}.json").read_text()) for rank in range(workers)]
        for one in seen:  # environment and status have them, too
            del one["python"]["variables of the process"], one["python"]["signals"]
        return seen

    def compare(self, torch, workers, *options, more=(), **settings):
        torchruns = self.seen_by_workers(torch.torchrun(), "torchrun", torch, workers, **settings)
        ddpruns = self.seen_by_workers([BIN / "ddprun", *options], "ddprun", torch, workers, **settings)
        listed = [*LISTED, *more, *(LISTED_FOR_1_13 if torch.release < (2, 0) else [])]
        unlisted = [(rank, *difference) for rank in range(workers)
                    for difference in differences(torchruns[rank], ddpruns[rank])
                    if not is_listed(listed, *difference)]
        self.assertEqual(unlisted, [], "(rank, what, under torchrun, under ddprun)")
        return ddpruns

    def test_every_listed_difference_is_documented(self):
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "pytorch.md").read_text(encoding="utf-8")
        for path, *_ in [*LISTED, *LISTED_FOR_1_13, *COPIED, *STREAMS, *IGNORED]:
            what = re.sub(r"[\[(].*", "", path.split("/", 1)[-1])
            self.assertIn(what.strip(), page)

    @with_each_torchrun
    def test_one_worker_sees_what_it_sees_under_torchrun(self, torch):
        ddpruns = self.compare(torch, 1, more=COPIED)
        self.assertEqual(ddpruns[0]["argv"][1:], ["--lr", "0.1", "--nproc-per-node=9", "0", "0", "a b", ""])

    @with_each_torchrun
    def test_two_workers_see_what_they_see_under_torchrun_but_for_their_streams(self, torch):
        self.compare(torch, 2, more=STREAMS)

    @with_each_torchrun
    def test_with_raw_output_and_shared_stdin_not_even_the_streams_differ(self, torch):
        self.compare(torch, 2, "--output=raw", "--stdin=all")
        (self.folder / "torchrun").rename(self.folder / "torchrun with two")
        (self.folder / "ddprun").rename(self.folder / "ddprun with two")
        self.compare(torch, 1, "--output=raw")

    @with_each_torchrun
    def test_a_module_sees_what_it_sees_under_torchrun(self, torch):
        (self.folder / "work" / "package").mkdir(parents=True)
        (self.folder / "work" / "package" / "dump.py").symlink_to(WORKERS / "dump.py")
        self.compare(torch, 1, program=["-m", "package.dump"], more=COPIED)

    @with_each_torchrun
    def test_unusual_limits_masks_and_priorities_reach_the_workers_as_under_torchrun(self, torch):
        self.compare(torch, 1, before=make_unusual, more=[*COPIED, *IGNORED])


if __name__ == "__main__":
    unittest.main()
