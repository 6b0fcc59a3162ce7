// What the membership core makes of a round in which nodes were lost.
#include <catch2/catch.hpp>

#include "tests/unit/rendezvous/membership/script.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using rdzv::JobState;
using test::nodes;
using test::Script;
using test::victim;

TEST_CASE("a lost node uses up no restart, though a victim's crash was seen first") {
  Script job(nodes(1, 2, 0));
  job.join("a");
  job.join("b");
  job.fail("a", 1, {false, 1, false});
  CHECK_FALSE(job.stop("a").final);
  job.say("a", proto::Stopped{0, {victim(1)}});
  job.join("a");
  CHECK(job.membership.state() == JobState::stopping);
  SECTION("the others only lost their peer") {
    job.lose("b");
    REQUIRE(job.membership.state() == JobState::running);
    CHECK(job.round("a").reason == "b (ranks 2 and 3) was lost: its connection ended");
    CHECK(job.round("a").restart_count == 0);
    CHECK(job.round("a").world_size == 2);
  }
  SECTION("a worker of the lost node failed by itself before") {
    job.fail("b", 0, {true, 11, false});
    proto::WorkerFailed crash = test::failed_in(0);
    crash.exit = {true, 11, false};
    job.say("b", proto::Stopped{0, {rdzv::without_evidence(crash)}});
    REQUIRE(job.membership.state() == JobState::finished);
    CHECK(job.finished("a").verdict->culprit.rank == 2);
  }
}

TEST_CASE("a worker that hung because a node was lost is no failure of its own") {
  Script job(nodes(1, 2, 0));
  job.join("a");
  job.join("b");
  proto::WorkerFailed hang = test::failed_in(0);
  hang.hang = "at step 5, silent for 60 s";
  job.say("a", hang);
  job.say("a", proto::Stopped{0, {rdzv::without_evidence(hang)}});
  job.join("a");
  job.lose("b");
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.membership.restart_count() == 0);
}

TEST_CASE("a worker that just ended after a lost node's last word does not explain the loss") {
  Script job(nodes(1, 3, 0));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  // Job time began with the script's clock; the last word of b came now.
  const auto last_word = job.now.time_since_epoch();
  proto::WorkerFailure failure;
  failure.exit = {false, 1, false};
  failure.evidence.kind = proto::EvidenceKind::own_exit;
  proto::ClockId clock = 7;
  const auto fail_at = [&](std::chrono::nanoseconds after) {
    failure.evidence.at = 10s + after;
    job.now += 1s;
    job.fail("a", 0, failure.exit);
    job.say("a", proto::Stopped{
                     0, {failure}, std::nullopt, {}, proto::JobTime{last_word - 10s, 1ms, 7}});
    job.stopped("c");
    job.now += 16s;
    job.lose("b", proto::LossSign::silent, 17s, clock);
  };
  SECTION("its end came later") {
    fail_at(2ms);
    CHECK(job.membership.state() == JobState::forming);
    job.join("a");
    job.join("c");
    CHECK(job.round("a").reason == "b (ranks 2 and 3) was lost: it has not answered for 17.0 s");
    return;
  }
  SECTION("its end may have come before") { fail_at(1ms); }
  SECTION("its end came before") { fail_at(-1s); }
  SECTION("the loss was seen by a service with another clock") {
    clock = 8;
    fail_at(2ms);
  }
  SECTION("it reports an error of its own") {
    failure.evidence.kind = proto::EvidenceKind::exception_line;
    fail_at(2ms);
  }
  REQUIRE(job.membership.state() == JobState::finished);
  CHECK(job.finished("a").verdict->culprit.rank == 0);
}

TEST_CASE("a job that misses a lost node tells of it while it waits and when it ends") {
  Script job(nodes(2, 2));
  job.join("a", 1);
  job.join("b", 8);
  job.lose("b", proto::LossSign::rebooted);
  job.come_back("a");
  job.pass(2s);
  job.pass(1s);
  const std::string loss = "b (ranks 1 to 8) was lost: its machine was started again";
  CHECK(job.newest<proto::Waiting>("a").reason == loss);
  job.pass(600s);
  CHECK(job.finished("a").reason ==
        "no round formed within the join timeout of 600 s: 1 of at least 2 nodes joined; " + loss);
  REQUIRE(job.finished("a").lost_node.has_value());
  CHECK(job.finished("a").lost_node->first_rank == 1);
}

TEST_CASE("of several lost nodes the first is named, and the others are counted") {
  Script job(nodes(1, 3));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  job.lose("c");
  job.lose("a");
  job.come_back("b");
  CHECK(job.round("b").reason ==
        "c (ranks 4 and 5) was lost: its connection ended; so was 1 more node");
}

TEST_CASE("the node that reports is told what was lost on the others, and all exit alike") {
  Script job(nodes(3, 3));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  const auto dropped = [](std::uint64_t bytes) { return proto::WorkersDone{0, {bytes, {}}}; };
  SECTION("output") {
    job.say("b", dropped(5));
    job.say("a", dropped(100));
    job.say("c", dropped(7));
    CHECK(job.finished("a").losses.dropped_bytes == 12);
    CHECK(job.finished("b").losses.dropped_bytes == 0);
    CHECK_FALSE(job.finished("b").exit_code.has_value());
  }
  SECTION("a process that could not be killed") {
    job.say("b", proto::WorkersDone{0, {0, {"42 (python3) is in state D"}}});
    job.done("a");
    job.done("c");
    CHECK(job.finished("a").losses.leftovers ==
          std::vector<std::string>{"b: 42 (python3) is in state D"});
    for (const char* agent : {"a", "b", "c"}) CHECK(job.finished(agent).has_leftovers);
  }
}

TEST_CASE("what an agent lost in all its rounds counts once") {
  Script job(nodes(2, 2, 1));
  job.join("a");
  job.join("b");
  job.fail("b", 0);
  job.stopped("a");
  job.say("b", proto::Stopped{0, {}, std::nullopt, {}, std::nullopt, {5, {}}});
  job.join("a");
  job.join("b");
  job.say("b", proto::WorkersDone{1, {6, {}}});
  job.done("a");
  CHECK(job.finished("a").losses.dropped_bytes == 6);
}

TEST_CASE("a node that does not report exits with the code of a worker that failed alike") {
  Script job(nodes(3, 3));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  // The culprit was stopped while it failed; another that failed alike has an exit code.
  proto::WorkerFailure stopped;
  stopped.exit = {true, 15, false};
  stopped.stopped_by_us = true;
  stopped.evidence = {proto::EvidenceKind::exception_line, 10ms, "ValueError", ""};
  proto::WorkerFailure alike = stopped;
  alike.exit = {false, 42, false};
  alike.stopped_by_us = false;
  alike.evidence.at = 20ms;
  job.fail("b", 0, {false, 42, false});
  job.say("a", proto::Stopped{0, {stopped}});
  job.say("b", proto::Stopped{0, {alike}});
  job.stopped("c");
  for (const char* agent : {"a", "b", "c"}) CHECK(job.finished(agent).exit_code == 42);
  CHECK(job.finished("c").verdict->alike.empty());
}

namespace {

proto::SlowestWorker slowest(int local_rank, std::uint64_t step, const std::string& phase,
                             std::chrono::nanoseconds silent_for, std::uint32_t place = 0) {
  proto::SlowestWorker worker;
  worker.silent_for = silent_for;
  worker.place = place;
  worker.as_hang.local_rank = local_rank;
  worker.as_hang.progress = {step, phase};
  worker.as_hang.exit = {false, 0, false};
  worker.as_hang.ran_for = 63s;
  worker.as_hang.ended_at = 63s;
  worker.as_hang.stopped_by_us = true;
  worker.as_hang.evidence = {proto::EvidenceKind::hang, 2s, "at step " + std::to_string(step), ""};
  return worker;
}

/// A node stops that found its slowest worker to hang, or that did not.
void stop(Script& job, const std::string& agent, const proto::SlowestWorker& worker,
          bool found_hang = false) {
  proto::Stopped stopped{0, {}};
  stopped.slowest = worker;
  if (found_hang) {
    proto::WorkerFailed hang = test::failed_in(0);
    hang.local_rank = worker.as_hang.local_rank;
    hang.hang = "silent for 60 s";
    job.say(agent, hang);
    stopped.failures = {rdzv::without_evidence(hang)};
  }
  job.say(agent, stopped);
}

}  // namespace

TEST_CASE("of a hang the worker that is furthest behind on all nodes is the culprit") {
  Script job(nodes(3, 3));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  stop(job, "a", slowest(0, 5, "reduce", 60s), true);
  SECTION("it is further behind") {
    stop(job, "b", slowest(1, 4, "data", 59s));
    stop(job, "c", slowest(0, 5, "reduce", 58s));
  }
  SECTION("it is as far, alone in its phase") {
    stop(job, "b", slowest(1, 5, "data", 50s));
    stop(job, "c", slowest(0, 5, "reduce", 58s));
  }
  SECTION("one that is further behind still moves") {
    stop(job, "b", slowest(1, 4, "data", 50s));
    stop(job, "c", slowest(0, 3, "data", 1s));
  }
  SECTION("none is further behind") {
    stop(job, "b", slowest(1, 5, "reduce", 59s));
    stop(job, "c", slowest(0, 6, "reduce", 70s));
    CHECK(job.finished("a").verdict->culprit.rank == 0);
    return;
  }
  const auto verdict = job.finished("b").verdict;
  REQUIRE(verdict.has_value());
  CHECK(verdict->culprit.rank == 3);
  CHECK(verdict->culprit.node == "b");
  CHECK(verdict->culprit.failure.evidence.kind == proto::EvidenceKind::hang);
  CHECK(verdict->culprit.failure.ran_for == 63s);  // as its own node has seen it
  CHECK(verdict->culprit.failure.exit.success());
  const auto& victims = job.finished("a").verdict->victims;
  REQUIRE(victims.size() == 1);
  CHECK(victims[0].failure.evidence.victim_phrase == "it waited for rank 3");
}

TEST_CASE("of nodes that found a hang, each its own, none is the culprit where another is behind") {
  Script job(nodes(3, 3));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  proto::WorkerFailed hang = test::failed_in(0);
  hang.hang = "silent for 60 s";
  for (const char* agent : {"a", "b"}) job.say(agent, hang);
  const bool all_found = GENERATE(true, false);
  if (all_found) job.say("c", hang);
  stop(job, "a", slowest(0, 5, "reduce", 60s), true);
  stop(job, "b", slowest(0, 5, "reduce", 60s), true);
  stop(job, "c", slowest(0, 4, "reduce", 60s), all_found);
  const auto verdict = job.finished("c").verdict;
  REQUIRE(verdict.has_value());
  CHECK(verdict->culprit.rank == 4);
  CHECK(verdict->culprit.failure.evidence.victim_phrase.empty());
  REQUIRE(job.membership.outcome()->verdict->victims.size() == 2);
  for (const auto& worker : job.membership.outcome()->verdict->victims)
    CHECK(worker.failure.evidence.victim_phrase == "it waited for rank 4");
}

TEST_CASE("a worker alone in its phase is the culprit, though it made more of its step") {
  Script job(nodes(3, 3));
  for (const char* agent : {"a", "b", "c"}) job.join(agent);
  stop(job, "a", slowest(0, 9, "checkpoint", 60s, 20), true);
  stop(job, "b", slowest(0, 9, "barrier", 59s, 3));
  stop(job, "c", slowest(0, 9, "barrier", 59s, 3));
  CHECK(job.finished("a").verdict->culprit.rank == 0);
}

TEST_CASE("of many workers that fail at once the culprit keeps its lines, wherever it comes") {
  constexpr int kNodes = 100;
  const int guilty = GENERATE(0, 50, 99);
  Script job(nodes(kNodes, kNodes));
  const auto name = [](int node) { return "n" + std::to_string(node); };
  for (int node = 0; node < kNodes; ++node) job.join(name(node), 1);
  const int first = job.round(name(guilty)).first_rank;
  for (int node = 0; node < kNodes; ++node) {
    if (node == 0) job.say(name(node), test::failed_in(0));
    proto::WorkerFailure failure = node == guilty ? proto::WorkerFailure{} : victim(0);
    failure.local_rank = 0;
    failure.exit = {false, 1, false};
    failure.last_lines = {"Traceback", "of " + name(node), ""};
    failure.stacks = {"a frame"};
    if (node == guilty)
      failure.evidence = {proto::EvidenceKind::exception_line, 5s, "KeyError", ""};
    job.say(name(node), proto::Stopped{0, {failure}});
  }
  REQUIRE(job.membership.state() == JobState::finished);
  const proto::Verdict& verdict = *job.membership.outcome()->verdict;
  CHECK(verdict.culprit.rank == first);
  CHECK(verdict.culprit.failure.last_lines.size() == 3);
  REQUIRE(verdict.victims.size() == kNodes - 1);
  int detailed = 0;
  for (const proto::FailedWorker& worker : verdict.victims) {
    REQUIRE_FALSE(worker.failure.last_lines.empty());
    CHECK((worker.failure.last_lines.size() == 3) == !worker.failure.stacks.empty());
    CHECK(worker.failure.last_lines[worker.failure.last_lines.size() == 3 ? 1 : 0] ==
          "of " + worker.node);
    detailed += worker.failure.last_lines.size() == 3 ? 1 : 0;
  }
  CHECK(detailed == 63);
}

TEST_CASE("what an agent lost counts once, though it was cut off and has another session") {
  Script job(nodes(2, 2, 3));
  job.join("a");
  job.join("b");
  const auto end_round = [&](const std::string& b, std::uint64_t dropped) {
    job.say("a", test::failed_in(job.round("a").number));
    job.stopped("a");
    proto::Stopped stopped{job.round(b).number, {}};
    stopped.losses.dropped_bytes = dropped;
    job.say(b, stopped);
    job.join("a");
  };
  end_round("b", 5);
  job.lose("b", proto::LossSign::cut_off);
  job.join("b/2");
  REQUIRE(job.membership.state() == JobState::running);
  proto::WorkersDone done{job.round("b/2").number, {6, {}}};
  job.say("b/2", done);
  job.done("a");
  CHECK(job.finished("a").losses.dropped_bytes == 6);
}

TEST_CASE(
    "those that wait are told which change of nodes ended the round, and for how long they wait") {
  Script job(nodes(2, 2, 3));
  job.join("a");
  job.join("b");
  job.say("b", proto::Leave{15, "", false});
  job.stopped("b");
  job.come_back("a");
  job.pass(3s);
  CHECK(job.newest<proto::Waiting>("a").reason == "b was stopped by SIGTERM");
  job.pass(job.settings.join_timeout);
  CHECK(
      job.finished("a").reason.ends_with("1 of at least 2 nodes joined; b was stopped by SIGTERM"));
}

TEST_CASE("a node whose workers had all ended well is the one that the others lost") {
  Script job(nodes(2, 2));
  for (const char* agent : {"a", "b"}) job.join(agent, 1);
  job.done("b");
  job.fail("a", 0, {false, 1, false});
  proto::Stopped lost{0, {test::victim(0)}};
  lost.round_began = proto::JobTime{1s, 1ms, 7};
  job.say("a", lost);
  proto::Stopped ended{0, {}};
  ended.ended = {{0, 55, 5ms}};
  ended.round_began = proto::JobTime{1s + 2ms, 1ms, 7};
  job.say("b", ended);
  const auto& verdict = *job.finished("a").verdict;
  CHECK(verdict.culprit.rank == 0);
  REQUIRE(verdict.ended.size() == 1);
  CHECK(verdict.ended[0].rank == 1);
  CHECK(verdict.ended[0].node == "b");
  CHECK(verdict.ended[0].worker.at == 7ms);
  CHECK(job.finished("a").reason ==
        "rank 0 on a exited with code 1 after 0 ms; rank 1 on b had ended with exit code 0");
}

TEST_CASE("what the report says of the program is told by the culprit's node") {
  Script job(nodes(2, 2));
  for (const char* agent : {"a", "b"}) job.join(agent, 1);
  job.fail("b", 0, {false, 1, false});
  const auto stop = [&](const std::string& agent, proto::WorkerFailure failure) {
    proto::Stopped stopped{0, {std::move(failure)}};
    stopped.round_began = proto::JobTime{1s, 1us, 7};
    stopped.program = proto::ProgramFacts{.python = "/python/of/" + agent};
    job.say(agent, stopped);
  };
  proto::WorkerFailure own;
  own.exit = {false, 1, false};
  own.evidence = {proto::EvidenceKind::exception_line, 10ms, "No module named 'x'", ""};
  stop("a", test::victim(0));
  stop("b", own);
  const auto& verdict = *job.finished("a").verdict;
  CHECK(verdict.culprit.rank == 1);
  REQUIRE(verdict.program);
  CHECK(verdict.program->python == "/python/of/b");
}
