// Who is the culprit: the ranking of evidence.
#include "rendezvous/membership/verdict.hpp"

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

TEST_CASE("the only one who failed is the culprit whatever it says") {
  CHECK(culprit({seen(3, own_exit, 5ms)}) == 3);
  CHECK(culprit({seen(3, exception_line, 5ms, "connection reset by peer")}) == 3);
}

TEST_CASE("the earliest sign decides between those who failed by themselves") {
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

TEST_CASE("the words of a victim lower it below everybody else") {
  CHECK(culprit({seen(0, exception_line, 1ms, "broken pipe"), seen(1, own_exit, 9ms)}) == 1);
  CHECK(culprit({seen(0, fatal_signal, 1ms, "remote process exited"), seen(1, own_exit, 9ms)}) ==
        1);
  CHECK(culprit({seen(0, own_exit, 1ms, "broken pipe"), seen(1, late_exit, 9ms)}) == 1);
  CHECK(culprit({seen(0, own_exit, 2ms, "broken pipe"), seen(1, own_exit, 1ms, "broken pipe")}) ==
        1);
}

TEST_CASE("who ended after the stop is the culprit only of those") {
  CHECK(culprit({seen(0, late_exit, 1ms), seen(1, own_exit, 9ms)}) == 1);
  CHECK(culprit({seen(0, late_exit, 9ms), seen(1, late_exit, 1ms)}) == 1);
}

TEST_CASE("everybody else who failed is a victim, in order of ranks") {
  const auto verdict =
      rdzv::judge({seen(2, own_exit, 3ms), seen(5, own_exit, 1ms), seen(0, own_exit, 2ms)});
  CHECK(verdict.culprit.rank == 5);
  REQUIRE(verdict.victims.size() == 2);
  CHECK(verdict.victims[0].rank == 0);
  CHECK(verdict.victims[1].rank == 2);
}

TEST_CASE("every kind of evidence has a name") {
  CHECK(rdzv::to_string(not_started) == "not_started");
  CHECK(rdzv::to_string(hang) == "hang");
  CHECK(rdzv::to_string(late_exit) == "late_exit");
}
