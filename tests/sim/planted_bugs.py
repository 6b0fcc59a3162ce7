#!/usr/bin/env python3
"""Plants bugs into the cores of the rendezvous, one at a time, and shows which seed of the simulation finds each.

usage: tests/sim/planted_bugs.py [NAME...]       for example: tests/sim/planted_bugs.py lease-never-ends
The sources are copied; each bug costs a build of a few files and up to 2,000 seeds (DDPRUN_SIM_SEEDS=FIRST:COUNT:STEP),
of etcd- ones those with an etcd.
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
FOLDERS = "agent base bench cmake launcher machine proto rendezvous scripts tests texts trainer warden worker".split()


class Edit(NamedTuple):
    file: str
    right: str  # occurs once in the file
    wrong: str


SESSION = "rendezvous/client/agent_session.cpp"
SESSION_TIME = "rendezvous/client/agent_session_time.cpp"
SESSION_PARTS = "rendezvous/client/session_parts.hpp"
SERVICE = "rendezvous/service/service_core.cpp"
JOB = "rendezvous/service/job.cpp"
JOBS = "rendezvous/service/service_jobs.cpp"
LEASES = "rendezvous/service/service_leases.cpp"
MEMBERSHIP = "rendezvous/membership/membership.cpp"
JOB_FACTS = "rendezvous/membership/job_facts.cpp"
ROSTER = "rendezvous/membership/roster.cpp"
FORMING = "rendezvous/membership/forming.cpp"
RUNNING = "rendezvous/membership/running.cpp"
STOPPING = "rendezvous/membership/stopping.cpp"
JUDGE = "rendezvous/membership/judge.cpp"
ETCD_JOURNAL = "rendezvous/etcd/journal_etcd.cpp"
ETCD_SLOT = "rendezvous/etcd/etcd_slot.cpp"

# Where two places keep the same promise, a bug is one in both.
BUGS = {
    # Leases and fences: two groups of workers at one time.
    "no-margin-after-a-lease": [Edit(
        LEASES,
        "return lease + std::chrono::nanoseconds(static_cast<std::int64_t>(drift)) + kKillMargin;",
        "return lease + std::chrono::nanoseconds(static_cast<std::int64_t>(drift) * 0);")],
    "reset-counts-as-end": [Edit(
        SERVICE, "if (ended.cleanly && connection.is_direct)\n", "if (!connection.agent.empty())\n")],
    "lease-is-too-long": [Edit(
        SESSION_TIME, "if (lease_.renew(until)) context", "if (lease_.renew(until += lease_.length())) context")],
    "lease-from-the-answer": [Edit(
        SESSION, "renew_lease(*sent + lease_.length(), context);", "renew_lease(context.now + lease_.length(), context);")],
    "silence-renews-the-lease": [Edit(
        SESSION_TIME, "if (too_long || dead) {\n", "if (too_long || dead) {\n    renew_lease(context.now + lease_.length(), context);\n")],
    "round-after-the-lease": [Edit(
        SESSION, "if (!lease_.end() || context.now >= *lease_.end()) {", "if (!lease_.end()) {")],
    "known-agents-are-not-waited-for": [Edit(
        SERVICE, "contact.heard_at = context.now;", "contact.heard_at = {};")],
    "forgotten-workers-are-not-waited-for": [
        Edit(MEMBERSHIP, "forming->not_before = std::max(forming->not_before.value_or(when), when);", "forming->not_before.reset();"),
        Edit(MEMBERSHIP, "  job_.incomplete_not_before = when;\n", "  job_.incomplete_not_before = when - when.time_since_epoch();\n")],
    "killed-service-leaves-no-trace": [Edit(
        LEASES, "if (!settings_.past_lease) return;", "return;")],
    # Rounds: which nodes take part, and how they end.
    "round-ends-without-its-last-node": [Edit(
        STOPPING, "if (roster.count(Phase::active) + roster.count(Phase::done) > 0) return;",
        "if (roster.count(Phase::active) + roster.count(Phase::done) > 1) return;")],
    "failing-node-keeps-its-place": [Edit(
        ROSTER, "member.failed_rounds >= kFailedRoundsMax", "member.failed_rounds > kFailedRoundsMax")],
    "number-of-the-past-is-given-again": [Edit(
        JOB_FACTS, "next_round = std::max(next_round, past->number + 1);", "next_round = std::max(next_round, past->number);")],
    "restart-count-is-forgotten": [Edit(
        JOB_FACTS, "policy.resume_at(past->restart_count);", "")],
    "one-restart-too-many": [Edit(
        "rendezvous/membership/restart_policy.cpp",
        "return used(now) < settings_.max_restarts;", "return used(now) <= settings_.max_restarts;")],
    "late-done-succeeds-alone": [Edit(
        RUNNING, "if (job.roster.count(Phase::active) > 0) return;\n  proto::Finished", "proto::Finished")],
    # Workers that go on in another round.
    "worker-of-an-older-round-goes-on": [Edit(FORMING, "if (worker.round + 1 != number) continue;\n", "")],
    "source-has-the-oldest-state": [Edit(FORMING, "*worker.step > source_->step", "*worker.step < source_->step")],
    "source-need-not-go-on": [Edit(FORMING, "member.seat->keep.clear();", "static_cast<void>(0);"),
                              Edit(FORMING, "if (const auto& source = keeping.source()) {", "if (const auto source = std::optional(keeping.source().value_or(Source{})); keeping.workers() > 0) {")],
    "dropped-worker-runs-on": [Edit(
        "agent/node/node_machine.cpp", "start.dropped.push_back({local_rank, worker.start});", "static_cast<void>(0);")],
    # Sessions: each message counts once, and none is lost.
    "message-counts-twice": [
        Edit(SERVICE, "if (numbered.seq <= session.acknowledged) return;", "if (numbered.seq < session.acknowledged) return;"),
        Edit(SESSION_PARTS, "unacknowledged_.front().seq <= acknowledged)", "unacknowledged_.front().seq < acknowledged)")],
    "unacknowledged-is-forgotten": [Edit(
        SESSION_PARTS, "unacknowledged_.front().seq <= acknowledged)", "unacknowledged_.front().seq <= acknowledged + 1)")],
    "missed-round-is-not-answered": [Edit(
        SESSION, "!place_.round && place_.miss(stop->round)) {", "!place_.round && over_) {")],
    # What a journal brings back.
    "replayed-at-another-time": [Edit(
        JOBS, "static_cast<void>(entry.job.apply(record.event, record.at));",
        "static_cast<void>(entry.job.apply(record.event, entry.job.began_at()));")],
    "loss-is-not-replayed": [Edit(
        JOBS, "static_cast<void>(entry.job.apply(record.event, record.at));",
        "if (!std::holds_alternative<SessionLost>(record.event)) static_cast<void>(entry.job.apply(record.event, record.at));")],
    "deadline-is-not-written": [Edit(
        JOBS,
        "  context.actions.records.push_back({run_id, context.now, std::move(event)});",
        "  if (!std::holds_alternative<DeadlinePassed>(event)) context.actions.records.push_back({run_id, context.now, event});")],
    # What nobody must notice, and what must go on soon.
    "dead-connection-is-kept": [Edit(
        SESSION_TIME, "if (too_long || dead) {\n", "static_cast<void>(dead);\n  if (too_long) {\n")],
    "refusal-does-not-renew-the-lease": [Edit(
        SESSION_TIME, "renew_lease(std::max(*lease_.end(), connecting->since + lease_.length()), context);",
        "renew_lease(*lease_.end(), context);")],
    "last-call-takes-long": [Edit(
        FORMING, "std::max(context.now + settings.last_call, job.incomplete_not_before)",
        "std::max(context.now + 60s + settings.last_call, job.incomplete_not_before)")],
    # The outcome, and who may take part.
    "late-comer-is-not-told": [
        Edit(JOB, "if (ended_in_life_of(began.age, at))", "if (ended_in_life_of(began.age, at) && began.addr.empty())"),
        Edit(JOB, "if (ended_in_life_of(join.age, at)) {", "if (ended_in_life_of(join.age, at) && session.addr.empty()) {")],
    "no-margin-after-an-end": [Edit(
        "rendezvous/service/service_core.hpp", "std::chrono::milliseconds kEndMargin{50};", "std::chrono::milliseconds kEndMargin{0};")],
    "rank-is-given-twice": [Edit(
        JOB_FACTS, "if (holder == nullptr || holder->first == agent) return \"\";", "if (rank >= 0) return \"\";")],
    # The verdict.
    "times-of-nodes-are-not-compared": [Edit(JUDGE, "worker.failure.evidence.at += later;", "")],
    "clock-of-the-agent-is-the-job's": [Edit(
        "rendezvous/client/job_clock.cpp",
        "return sample.received + theirs + (when - (sample.sent + own));",
        "return sample.received * 0 + theirs + (when - (sample.sent + own)) + own;")],
    # Several rdzvd over an etcd: what a leader writes and answers, and what the next one knows. These names begin with etcd-.
    "etcd-leader-is-not-compared": [Edit(
        ETCD_SLOT,
        "txn.compares = {{EtcdCompare::What::create_revision, leader_key_, leader_revision_},\n                  {",
        "txn.compares = {{")],
    "etcd-times-of-two-clocks-are-compared": [Edit(
        JUDGE, "return time.clock == clock_ || time.clock == 0 || clock_ == 0;", "return time.clock == clock_ || clock_ != 1;")],
    "etcd-lost-request-counts-as-written": [Edit(
        ETCD_JOURNAL, "if (!std::exchange(is_told, true)) lines.push_back", "if (fault.kind == Kind::unreachable) return true;\n      lines.push_back")],
    "etcd-snapshot-loses-a-record": [Edit(
        "rendezvous/etcd/etcd_records.cpp", "  job.bytes = journal_of(snapshot);\n",
        "  JobSnapshot less = snapshot;\n  less.records.pop_back();\n  job.bytes = journal_of(less);\n")],
    "etcd-old-leader-answers": [Edit(
        ETCD_JOURNAL, "if (unsent_.empty() && tenure_->may_answer()) return true;", "if (unsent_.empty()) return true;")],
}


def copy_sources(to):
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ["CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "CHANGELOG.md"]:
        shutil.copy(ROOT / file, to / file)


def build(source):
    return subprocess.run(["ninja", "-C", source / "build", "test_sim"], capture_output=True, text=True)


def first_failing_seed(source, name):
    """The seed at which the simulation fails, and what it says; none: it passes."""
    seeds = "3:1000:4" if name.startswith("etcd-") else "0:2000"
    environment = {"DDPRUN_SIM_SEEDS": seeds, **os.environ}
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
            right = {}
            for edit in BUGS[name]:
                path = source / edit.file
                text = path.read_text()
                assert text.count(edit.right) == 1, f"{name}: {edit.file} has changed"
                right.setdefault(path, text)
                path.write_text(text.replace(edit.right, edit.wrong))
            built = build(source)
            if built.returncode != 0:
                sys.exit(f"{name}: does not compile\n{built.stdout}")
            found = first_failing_seed(source, name)
            print(f"{name:40} " + (f"seed {found[0]}: {found[1]}" if found else "NOT FOUND"), flush=True)
            if not found:
                missed.append(name)
            for path, text in right.items():
                path.write_text(text)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
