// Which worker is the culprit: the ranking of evidence.
#include "rendezvous/membership/verdict.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace std::chrono_literals;
using namespace ddprun;
using enum proto::EvidenceKind;

namespace {

proto::FailedWorker seen(int rank, proto::EvidenceKind kind, std::chrono::nanoseconds at,
                         const std::string& victim_phrase = "") {
  proto::FailedWorker worker;
  worker.rank = rank;
  worker.failure.evidence = {kind, at, "", victim_phrase};
  return worker;
}

int culprit(std::vector<proto::FailedWorker> failed) {
  return rdzv::judge(std::move(failed)).culprit.rank;
}

}  // namespace

TEST_CASE("the only one that failed is the culprit whatever it says") {
  CHECK(culprit({seen(3, own_exit, 5ms)}) == 3);
  CHECK(culprit({seen(3, exception_line, 5ms, "connection reset by peer")}) == 3);
}

TEST_CASE("the earliest sign decides between workers that failed by themselves") {
  CHECK(culprit({seen(0, own_exit, 9ms), seen(1, own_exit, 5ms)}) == 1);
  CHECK(culprit({seen(0, own_exit, 9ms), seen(1, exception_line, 5ms)}) == 1);
  CHECK(culprit({seen(0, error_file, 5ms), seen(1, exception_line, 6ms)}) == 0);
  CHECK(culprit({seen(1, own_exit, 5ms), seen(0, own_exit, 5ms)}) == 0);
}

TEST_CASE("evidence that only a culprit shows beats any time") {
  for (const auto kind : {not_started, memory_kill, fatal_signal, hang})
    CHECK(culprit({seen(0, own_exit, 1ms), seen(1, kind, 9ms)}) == 1);
  CHECK(culprit({seen(0, fatal_signal, 5ms), seen(1, memory_kill, 9ms)}) == 0);
}

TEST_CASE("a victim's words rank it below all others") {
  CHECK(culprit({seen(0, exception_line, 1ms, "broken pipe"), seen(1, own_exit, 9ms)}) == 1);
  CHECK(culprit({seen(0, fatal_signal, 1ms, "remote process exited"), seen(1, own_exit, 9ms)}) ==
        1);
  CHECK(culprit({seen(0, own_exit, 1ms, "broken pipe"), seen(1, late_exit, 9ms)}) == 1);
  CHECK(culprit({seen(0, own_exit, 2ms, "broken pipe"), seen(1, own_exit, 1ms, "broken pipe")}) ==
        1);
}

TEST_CASE("a worker that ended after the stop is the culprit only if all did") {
  CHECK(culprit({seen(0, late_exit, 1ms), seen(1, own_exit, 9ms)}) == 1);
  CHECK(culprit({seen(0, late_exit, 9ms), seen(1, late_exit, 1ms)}) == 1);
}

TEST_CASE("every other failed worker is a victim, in order of ranks") {
  auto culprit = seen(5, own_exit, 1ms);
  culprit.failure.exit = {false, 7};
  const auto verdict = rdzv::judge({seen(2, own_exit, 3ms), culprit, seen(0, own_exit, 2ms)});
  CHECK(verdict.culprit.rank == 5);
  REQUIRE(verdict.victims.size() == 2);
  CHECK(verdict.victims[0].rank == 0);
  CHECK(verdict.victims[1].rank == 2);
}

TEST_CASE("a worker that was stopped within the culprit's traceback failed the same way") {
  const std::vector<std::string> lines = {
      "step 7", "Traceback (most recent call last):", "  File \"x.py\", line 5, in <module>",
      "    raise RuntimeError('boom')", "RuntimeError: boom"};
  auto first = seen(0, exception_line, 150ms);
  first.failure.evidence.text = "RuntimeError: boom";
  first.failure.last_lines = lines;
  first.failure.exit = {false, 1, false};
  auto cut = seen(3, exception_line, 154ms);
  cut.failure.stopped_by_us = true;
  cut.failure.exit = {true, 15, false};
  for (std::size_t count = 3; count < lines.size(); ++count) {
    cut.failure.last_lines.assign(lines.begin(), lines.begin() + static_cast<long>(count));
    CAPTURE(count);
    CHECK(rdzv::judge({first, cut}).alike.size() == 1);
  }
  cut.failure.last_lines = {"[rank3]: Traceback (most recent call last):",
                            "[rank3]:   File \"x.py\", li"};
  CHECK(rdzv::judge({first, cut}).alike.size() == 1);
  cut.failure.last_lines[1] = "  File \"y.py\", line 5, in <module>";
  CHECK(rdzv::judge({first, cut}).victims.size() == 1);
  cut.failure.last_lines.pop_back();  // the beginning of any traceback
  CHECK(rdzv::judge({first, cut}).victims.size() == 1);
}

TEST_CASE("a worker that had ended well is the suspect of those that only lost a peer") {
  const auto ended = [](int rank, std::chrono::nanoseconds at) {
    return proto::EarlyEnd{"a", rank, {rank, 100 + rank, at}, ""};
  };
  const auto lost = seen(0, exception_line, 20ms, "connection closed by peer");
  auto timed_out = seen(0, exception_line, 20ms, "timed out waiting");
  timed_out.failure.evidence.timed_out = true;
  const std::vector<proto::Suspect> running{{"a", 2, {}, ""}};
  for (const auto& failed : {lost, timed_out}) {
    const auto verdict = rdzv::judge({failed}, running, {ended(3, 9ms), ended(1, 8ms)});
    CHECK(verdict.culprit.rank == 0);
    CHECK(verdict.suspects.empty());
    REQUIRE(verdict.ended.size() == 2);
    CHECK(verdict.ended[0].rank == 1);
    CHECK(rdzv::failed_node(verdict) == "a");
  }
  // Connections end before their process does.
  CHECK(rdzv::judge({lost}, running, {ended(1, 120ms)}).ended.size() == 1);
  CHECK(rdzv::judge({lost}, running, {ended(1, 700ms)}).ended.empty());
  CHECK(rdzv::judge({timed_out}, running, {ended(1, 21ms)}).ended.empty());
  CHECK(rdzv::judge({timed_out}, running, {ended(1, 21ms)}).suspects.size() == 1);
  CHECK(rdzv::judge({seen(0, exception_line, 20ms)}, {}, {ended(1, 8ms)}).ended.empty());
}

namespace {

/// The ranks that failed as the culprit did, of rank 0 (the culprit) and the others.
std::vector<int> alike(std::vector<proto::FailedWorker> failed) {
  std::vector<int> ranks;
  for (const auto& worker : rdzv::judge(std::move(failed)).alike) ranks.push_back(worker.rank);
  return ranks;
}

proto::FailedWorker with_text(proto::FailedWorker worker, const std::string& text) {
  worker.failure.evidence.text = text;
  return worker;
}

}  // namespace

TEST_CASE("workers with the same message failed alike") {
  const auto error = [](int rank, const std::string& text) {
    return with_text(seen(rank, exception_line, rank * 1ms), text);
  };
  CHECK(alike({error(0, "SyntaxError: bad"), error(1, "SyntaxError: bad"), error(2, "OSError")}) ==
        std::vector{1});
  CHECK(alike({error(0, "[rank0]: no port 80"), error(1, "[rank12]: no port 81")}) ==
        std::vector{1});
  CHECK(alike({error(0, "train: rank 0: no data"), error(1, "train: rank 1: no data")}) ==
        std::vector{1});
  CHECK(alike({error(0, "OSError"), seen(1, own_exit, 1ms)}).empty());
  auto silent = seen(0, own_exit, 1ms);
  silent.failure.last_lines = {"no such folder", ""};
  auto later = seen(1, late_exit, 2ms);
  later.failure.last_lines = {"no such folder"};
  later.failure.evidence.after_stop = true;
  CHECK(alike({silent, later}) == std::vector{1});
}

TEST_CASE("workers without a message failed alike if they exited alike") {
  const auto ended = [](int rank, ExitStatus exit) {
    auto worker = seen(rank, own_exit, rank * 1ms);
    worker.failure.exit = exit;
    return worker;
  };
  CHECK(alike({ended(0, {false, 2}), ended(1, {false, 2}), ended(2, {false, 3})}) ==
        std::vector{1});
  CHECK(alike({ended(0, {true, 11}), ended(1, {true, 11})}) == std::vector{1});
  auto crashed_later = ended(1, {true, 11});
  crashed_later.failure.evidence.after_stop = true;
  CHECK(alike({ended(0, {true, 11}), crashed_later}).empty());
}

TEST_CASE("a victim's words make a victim unless the culprit uses them too") {
  const auto lost = [](int rank) {
    return with_text(seen(rank, exception_line, rank * 1ms, "Broken pipe"), "Broken pipe");
  };
  CHECK(alike({with_text(seen(0, own_exit, 9ms), "Broken pipe"), lost(1)}).empty());
  CHECK(alike({lost(0), lost(1)}) == std::vector{1});
  CHECK(alike({seen(0, hang, 1ms), seen(1, hang, 2ms)}).empty());
}

TEST_CASE("if all failed workers timed out, the workers still running are suspects") {
  auto timed_out = seen(0, exception_line, 1ms, "timed out waiting");
  timed_out.failure.evidence.timed_out = true;
  const std::vector<proto::Suspect> others{{"local", 2, {}}, {"local", 1, {}}};
  const auto verdict = rdzv::judge({timed_out}, others);
  CHECK(verdict.culprit.rank == 0);
  REQUIRE(verdict.suspects.size() == 2);
  CHECK(verdict.suspects[0].rank == 1);
  CHECK(rdzv::judge({timed_out, seen(3, own_exit, 9ms)}, others).suspects.empty());
  // A worker that loses the one which timed out and exited.
  CHECK(rdzv::judge({timed_out, seen(3, exception_line, 9ms, "broken pipe")}, others)
            .suspects.size() == 2);
  CHECK(rdzv::judge({seen(0, exception_line, 1ms, "broken pipe")}, others).suspects.empty());
}

TEST_CASE("a round failed where a worker probably hangs, not where others waited for it") {
  auto timed_out = seen(0, exception_line, 1ms, "timed out waiting");
  timed_out.failure.evidence.timed_out = true;
  timed_out.agent = "a";
  const auto node = [&](const std::vector<proto::Suspect>& others) {
    return rdzv::failed_node(rdzv::judge({timed_out}, others));
  };
  CHECK(node({}) == "a");
  CHECK(node({{"b", 2, {}}}) == "b");
  CHECK(node({{"b", 2, {}}, {"b", 3, {}}}) == "b");
  CHECK(node({{"a", 1, {}}, {"b", 2, {}}}).empty());
  std::vector<proto::Suspect> with_steps{{"a", 1, {}}, {"b", 2, {}}};
  with_steps[0].worker.progress = proto::WorkerProgress{5, ""};
  with_steps[1].worker.progress = proto::WorkerProgress{4, ""};
  CHECK(node(with_steps) == "b");
  auto suspended = seen(2, hang, 9ms);
  suspended.failure.evidence.suspended = true;
  suspended.agent = "b";
  auto crashed = seen(0, fatal_signal, 5ms);
  crashed.agent = "a";
  CHECK(rdzv::failed_node(rdzv::judge({suspended, crashed})) == "a");
}

TEST_CASE("a suspended worker is the culprit unless another reports an error of its own") {
  auto suspended = seen(1, hang, 9ms);
  suspended.failure.evidence.suspended = true;
  suspended.failure.pid = 42;
  CHECK(culprit({suspended, seen(0, own_exit, 5ms)}) == 1);
  CHECK(culprit({suspended, seen(0, exception_line, 5ms, "broken pipe")}) == 1);
  CHECK(culprit({suspended, seen(0, error_file, 5ms, "timed out waiting")}) == 1);
  auto stopped = seen(0, exception_line, 5ms);
  stopped.failure.evidence.after_stop = true;
  CHECK(culprit({suspended, stopped}) == 1);
  for (const auto kind : {memory_kill, fatal_signal, error_file, exception_line}) {
    auto victim = seen(2, own_exit, 6ms);
    victim.failure.exit = {false, 3};
    const auto verdict = rdzv::judge({suspended, seen(0, kind, 5ms), victim});
    CHECK(verdict.culprit.rank == 0);
    REQUIRE(verdict.victims.size() == 1);
    CHECK(verdict.victims[0].rank == 2);
    REQUIRE(verdict.suspects.size() == 1);
    CHECK(verdict.suspects[0].rank == 1);
    CHECK(verdict.suspects[0].worker.pid == 42);
    CHECK(verdict.suspects[0].worker.suspended);
  }
  // A message may say of the only worker that it was suspended and reports an error.
  auto both = seen(1, exception_line, 5ms);
  both.failure.evidence.suspended = true;
  CHECK(culprit({both}) == 1);
  // A hang that --progress-timeout found is not one that a signal explains.
  CHECK(culprit({seen(1, hang, 9ms), seen(0, exception_line, 5ms)}) == 1);
}

namespace {

/// On a node of its own, in job time.
proto::FailedWorker apart(int rank, proto::EvidenceKind kind, std::chrono::nanoseconds at,
                          std::chrono::nanoseconds uncertainty) {
  proto::FailedWorker worker = seen(rank, kind, at);
  worker.agent = "node" + std::to_string(rank);
  worker.failure.evidence.uncertainty = uncertainty;
  worker.failure.evidence.text =
      "error of rank " + std::string(static_cast<std::size_t>(rank), '+');
  return worker;
}

}  // namespace

TEST_CASE("of two nodes the earlier one decides where the clocks can tell") {
  const auto verdict =
      rdzv::judge({apart(0, exception_line, 5300us, 100us), apart(1, own_exit, 5ms, 100us)});
  CHECK(verdict.culprit.rank == 1);
  CHECK_FALSE(verdict.close_call.has_value());
}

TEST_CASE("within the clocks' uncertainty the stronger evidence decides, then the lower rank") {
  auto verdict =
      rdzv::judge({apart(0, own_exit, 5ms, 100us), apart(1, exception_line, 5200us, 100us)});
  CHECK(verdict.culprit.rank == 1);
  REQUIRE(verdict.close_call.has_value());
  CHECK(verdict.close_call->rank == 0);
  CHECK(verdict.close_call->more == 0);
  CHECK(verdict.close_call->within == 200us);
  CHECK(verdict.close_call->by_kind);
  verdict = rdzv::judge({apart(2, own_exit, 5ms, 100us), apart(1, own_exit, 5100us, 200us),
                         apart(3, own_exit, 4950us, 50us)});
  CHECK(verdict.culprit.rank == 1);
  REQUIRE(verdict.close_call.has_value());
  CHECK(verdict.close_call->rank == 2);
  CHECK(verdict.close_call->more == 1);
  CHECK(verdict.close_call->within == 300us);
  CHECK_FALSE(verdict.close_call->by_kind);
}

TEST_CASE("a chain of overlapping times does not reach back from its last to its first") {
  // 2 overlaps 1, which overlaps 0; 2 was later than 0.
  const auto verdict =
      rdzv::judge({apart(0, own_exit, 5ms, 100us), apart(1, own_exit, 5150us, 100us),
                   apart(2, exception_line, 5300us, 100us)});
  CHECK(verdict.culprit.rank == 0);
  CHECK(verdict.close_call->rank == 1);
  CHECK(verdict.close_call->more == 0);
}

TEST_CASE("the workers of one node are compared by its own clock") {
  auto sooner = apart(1, own_exit, 5ms, 1ms);
  auto later = apart(0, exception_line, 5001us, 1ms);
  later.agent = sooner.agent;
  CHECK(culprit({later, sooner}) == 1);
  CHECK_FALSE(rdzv::judge({later, sooner}).close_call.has_value());
  // The other node is compared with its first.
  CHECK(culprit({later, sooner, apart(7, own_exit, 4500us, 100us)}) == 1);
  CHECK(culprit({later, sooner, apart(7, own_exit, 3ms, 100us)}) == 7);
}

TEST_CASE("no time makes a worker guiltier than one with evidence of another weight") {
  const auto verdict = rdzv::judge(
      {apart(0, own_exit, 5ms, 1s), apart(1, fatal_signal, 5ms, 1s), apart(2, late_exit, 1ms, 1s)});
  CHECK(verdict.culprit.rank == 1);
  CHECK_FALSE(verdict.close_call.has_value());
}

TEST_CASE("workers that failed alike need no order") {
  auto first = apart(0, own_exit, 5ms, 1ms);
  auto second = apart(1, own_exit, 5ms, 1ms);
  second.failure.evidence.text = first.failure.evidence.text = "SyntaxError";
  CHECK_FALSE(rdzv::judge({second, first}).close_call.has_value());
}

TEST_CASE("the order in which failures are known makes no difference") {
  std::vector<proto::FailedWorker> failed{
      apart(0, own_exit, 5200us, 100us), apart(1, exception_line, 5100us, 60us),
      apart(2, own_exit, 5ms, 50us), apart(3, late_exit, 1ms, 1ms), apart(4, own_exit, 9ms, 9ms)};
  const auto by_rank = [](const auto& a, const auto& b) { return a.rank < b.rank; };
  do {
    const auto verdict = rdzv::judge(failed);
    CHECK(verdict.culprit.rank == 1);
    CHECK(verdict.close_call->rank == 2);
    CHECK(verdict.close_call->more == 1);
  } while (std::next_permutation(failed.begin(), failed.end(), by_rank));
}

TEST_CASE("every kind of evidence has a name") {
  CHECK(rdzv::to_string(not_started) == "not_started");
  CHECK(rdzv::to_string(hang) == "hang");
  CHECK(rdzv::to_string(late_exit) == "late_exit");
}
