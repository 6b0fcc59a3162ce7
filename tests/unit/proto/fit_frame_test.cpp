// Messages of thousands of workers fit into a frame, and keep what matters most.
#include <catch2/catch.hpp>
#include <string>

#include "proto/failure_text.hpp"
#include "proto/fit_frame.hpp"
#include "proto/message_limits.hpp"
#include "tests/support/membership_json.hpp"

using namespace ddprun;
using namespace ddprun::proto;

namespace {

WorkerFailure talkative(int local_rank) {
  WorkerFailure failure;
  failure.local_rank = local_rank;
  failure.exit = {false, 1, false};
  failure.last_lines.assign(20, std::string(400, 'l'));
  failure.stacks.assign(100, std::string(100, 's'));
  failure.evidence.text = std::string(8000, 'e');
  failure.error = std::string(8000, 'r');
  return failure;
}

}  // namespace

TEST_CASE("a job's end fits, whatever its workers printed") {
  Finished finished;
  finished.outcome = Finished::Outcome::failed;
  Verdict verdict;
  verdict.culprit = {"a", 0, talkative(0)};
  for (int rank = 1; rank < 2000; ++rank) verdict.victims.push_back({"a", rank, talkative(rank)});
  verdict.suspects.assign(5000, {"a", 1, {1, 2, std::nullopt, {std::string(1000, 's')}, false}});
  finished.verdict = std::move(verdict);
  const std::string body = encode_to_fit(ServiceMessage(MembershipMessage(finished)));
  CHECK(body.size() <= kMessageBytesMax);
  const auto read = decode_membership_message(body);
  REQUIRE(read.has_value());
  const auto& verdict_read = *std::get<Finished>(*read).verdict;
  CHECK(verdict_read.culprit.failure.last_lines.size() == 20);
  CHECK(verdict_read.victims.size() == 64);
  CHECK(verdict_read.victims[0].rank == 1);
}

TEST_CASE("of too many suspects those that are furthest behind are kept, by rank") {
  Finished finished;
  Verdict& verdict = finished.verdict.emplace();
  verdict.culprit = {"a", 0, talkative(0)};
  const std::string node(500, 'n');
  for (int rank = 1; rank < 5000; ++rank) {
    verdict.suspects.push_back({"a", rank, {0, 2, WorkerProgress{7, ""}, {}, false}, node});
    if (rank > 4000) verdict.suspects.back().worker.progress->step = 6;
  }
  const auto kept = [&] {
    const std::string body = encode_to_fit(ServiceMessage(MembershipMessage(finished)));
    return *std::get<Finished>(*decode_membership_message(body)).verdict;
  };
  SECTION("one alone is") {
    verdict.suspects[4500].worker.progress->step = 5;
    REQUIRE(likely_suspect(kept()) != nullptr);
    CHECK(likely_suspect(kept())->rank == 4501);
    CHECK(kept().suspects.front().rank == 4001);
  }
  SECTION("two are") { CHECK(likely_suspect(kept()) == nullptr); }
  SECTION("one has told no step") {
    verdict.suspects[0].worker.progress->step = 5;
    verdict.suspects[4900].worker.progress.reset();
    CHECK(likely_suspect(kept()) == nullptr);
  }
  CHECK(kept().suspects.size() == 64);
}

TEST_CASE("what a node has stopped fits, and the first failure keeps its lines") {
  Stopped stopped;
  for (int rank = 0; rank < 2000; ++rank) stopped.failures.push_back(talkative(rank));
  stopped.still_ran.assign(5000, {1, 2, std::nullopt, {std::string(1000, 's')}, false});
  const std::string body = encode_to_fit(ClientMessage(Numbered{1, stopped}));
  CHECK(body.size() <= kMessageBytesMax);
  const auto read = decode_client_message(body);
  REQUIRE(read.has_value());
  const auto& read_stopped = std::get<Stopped>(std::get<Numbered>(*read).message);
  CHECK(read_stopped.failures.size() == 64);
  CHECK(read_stopped.failures[0].last_lines.size() == 20);
  CHECK(read_stopped.failures[1].last_lines.empty());
}

TEST_CASE("the lines of one worker alone may be too many") {
  Finished finished;
  finished.verdict.emplace().culprit = {"a", 0, talkative(0)};
  finished.verdict->culprit.failure.last_lines.assign(512, std::string(8192, 'l'));
  CHECK(encode_to_fit(ServiceMessage(MembershipMessage(finished))).size() <= kMessageBytesMax);
}

TEST_CASE("a message that fits is not touched") {
  Stopped stopped;
  for (int rank = 0; rank < 10; ++rank) stopped.failures.push_back(talkative(rank));
  const ClientMessage message = Numbered{1, stopped};
  CHECK(encode_to_fit(message) == encode(message));
}
