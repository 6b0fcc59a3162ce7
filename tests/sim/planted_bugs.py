#!/usr/bin/env python3
"""Plants bugs into the cores of the rendezvous, one at a time, and shows which seed of the simulation finds each.

usage: tests/sim/planted_bugs.py [NAME...]       for example: tests/sim/planted_bugs.py lease-never-ends
The sources are copied; each bug costs a build of a few files and up to 1,000 seeds (DDPRUN_SIM_SEEDS=FIRST:COUNT).
Exits with 1 if a bug is not found.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = "agent base bench cmake launcher machine proto rendezvous scripts tests trainer warden worker".split()


class Bug(NamedTuple):
    file: str
    right: str  # occurs once in the file
    wrong: str


BUGS = {
    # Leases and fences: two groups of workers at one time.
    "no-margin-after-a-lease": Bug(
        "rendezvous/service/service_leases.cpp",
        "return lease + std::chrono::nanoseconds(static_cast<std::int64_t>(drift)) + kKillMargin;",
        "return lease + std::chrono::nanoseconds(static_cast<std::int64_t>(drift) * 0);"),
    "reset-counts-as-end": Bug(
        "rendezvous/service/service_core.cpp",
        "if (ended.cleanly)\n", "if (!connection.agent.empty())\n"),
    "lease-never-ends": Bug(
        "rendezvous/client/agent_session_time.cpp",
        "return round_ && !done_ && !fenced_;", "return round_ && !round_;"),
    "lease-from-the-answer": Bug(
        "rendezvous/client/agent_session.cpp",
        "renew_lease(sent + lease_, context);", "renew_lease(context.now + lease_, context);"),
    "silence-renews-the-lease": Bug(
        "rendezvous/client/agent_session_time.cpp",
        "if (failed.refused && link_ == Link::connecting", "if (link_ == Link::connecting"),
    "known-agents-are-not-waited-for": Bug(
        "rendezvous/service/service_core.cpp",
        "entry.job.contact(id).heard_at = now;", "entry.job.contact(id).heard_at = {};"),
    "forgotten-workers-are-not-waited-for": Bug(
        "rendezvous/membership/membership_forming.cpp",
        "not_before_ = std::max(not_before_.value_or(when), when);", "not_before_.reset();"),
    # Rounds: who takes part, and how they end.
    "round-ends-without-its-last-node": Bug(
        "rendezvous/membership/membership_stopping.cpp",
        "if (count(Phase::active) + count(Phase::done) > 0) return;",
        "if (count(Phase::active) + count(Phase::done) > 1) return;"),
    "number-of-the-past-is-given-again": Bug(
        "rendezvous/membership/membership_joining.cpp",
        "next_round_ = std::max(next_round_, past_->number + 1);", "next_round_ = std::max(next_round_, past_->number);"),
    "restart-count-is-forgotten": Bug(
        "rendezvous/membership/membership_joining.cpp",
        "policy_.resume_at(past_->restart_count);", ""),
    "one-restart-too-many": Bug(
        "rendezvous/membership/restart_policy.cpp",
        "return used(now) < settings_.max_restarts;", "return used(now) <= settings_.max_restarts;"),
    "late-done-succeeds-alone": Bug(
        "rendezvous/membership/membership.cpp",
        "if (count(Phase::active) > 0) return;\n  proto::Finished", "proto::Finished"),
    # Sessions: each message counts once, and none is lost.
    "message-counts-twice": Bug(
        "rendezvous/service/service_core.cpp",
        "if (numbered.seq <= session.acknowledged) return;", "if (numbered.seq < session.acknowledged) return;"),
    "unacknowledged-is-forgotten": Bug(
        "rendezvous/client/agent_session.cpp",
        "unacknowledged_.front().seq <= acknowledged)", "unacknowledged_.front().seq <= acknowledged + 1)"),
    "missed-round-is-not-answered": Bug(
        "rendezvous/client/agent_session.cpp",
        "answer_for_missed_round(stop->round, context);\n  if", "static_cast<void>(context);\n  if"),
    "told-again-is-new": Bug(
        "rendezvous/client/agent_session.cpp",
        "std::pair(round->epoch, round->number) > std::pair(past_->epoch, past_->number);",
        "std::pair(round->epoch, round->number) >= std::pair(past_->epoch, past_->number);"),
    "fenced-node-listens": Bug(
        "rendezvous/client/agent_session.cpp",
        "if (link_ != Link::attached || fenced_) return;", "if (link_ != Link::attached) return;"),
    # What a journal brings back.
    "replayed-at-another-time": Bug(
        "rendezvous/service/service_core.cpp",
        "static_cast<void>(entry.job.apply(record.event, record.at));",
        "static_cast<void>(entry.job.apply(record.event, entry.job.began_at()));"),
    "loss-is-not-in-the-journal": Bug(
        "rendezvous/service/job.cpp",
        "if (membership_) tell(AgentLost{lost.agent, lost.sign, lost.silent_for}, at, actions);",
        "if (membership_ && lost.silent_for.count() > 0) tell(AgentLost{lost.agent, lost.sign}, at, actions);"),
    # The verdict.
    "times-of-nodes-are-not-compared": Bug(
        "rendezvous/membership/membership_stopping.cpp",
        "worker.failure.evidence.at += later;", ""),
    "clock-of-the-agent-is-the-job's": Bug(
        "rendezvous/client/job_clock.cpp",
        "return sample.received + theirs + (when - (sample.sent + own));",
        "return sample.received * 0 + theirs + (when - (sample.sent + own)) + own;"),
}


def copy_sources(to):
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ["CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "CHANGELOG.md"]:
        shutil.copy(ROOT / file, to / file)


def build(source):
    return subprocess.run(["ninja", "-C", source / "build", "test_sim"], capture_output=True, text=True)


def first_failing_seed(source):
    """The seed at which the simulation fails, and what it says; none: it passes."""
    environment = {"DDPRUN_SIM_SEEDS": "0:1000", **os.environ}
    run = subprocess.run([source / "build/tests/test_sim", "any history*"], capture_output=True, text=True,
                         env=environment, timeout=3600)
    if run.returncode == 0:
        return None
    seed = re.search(r"seed := (\d+)", run.stdout)
    said = re.search(r"violations := \{ \"([^\"]*)", run.stdout)
    return (seed.group(1) if seed else "?"), (said.group(1) if said else f"exit status {run.returncode}")


def main(names):
    unknown = [name for name in names if name not in BUGS]
    if unknown:
        sys.exit(f"no bug is called {unknown[0]}; there are: {', '.join(BUGS)}")
    missed = []
    with tempfile.TemporaryDirectory(prefix="ddprun-planted-") as folder:
        source = pathlib.Path(folder)
        copy_sources(source)
        subprocess.run(["cmake", "-S", source, "-B", source / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                        "-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DDDPRUN_CUDA=OFF", "-DCMAKE_UNITY_BUILD=ON"],
                       check=True, stdout=subprocess.DEVNULL)
        for name in names or BUGS:
            bug = BUGS[name]
            path = source / bug.file
            right = path.read_text()
            assert right.count(bug.right) == 1, f"{name}: {bug.file} has changed"
            path.write_text(right.replace(bug.right, bug.wrong))
            built = build(source)
            if built.returncode != 0:
                sys.exit(f"{name}: does not compile\n{built.stdout}")
            found = first_failing_seed(source)
            print(f"{name:40} " + (f"seed {found[0]}: {found[1]}" if found else "NOT FOUND"), flush=True)
            if not found:
                missed.append(name)
            path.write_text(right)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
