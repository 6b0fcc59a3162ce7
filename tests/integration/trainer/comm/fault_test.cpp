// Real ranks, of which one is killed or stopped in each phase of the collectives: the others find
// out, in time, which rank they miss and in which bucket, and nothing is left.
#include <catch2/catch.hpp>
#include <csignal>
#include <memory>
#include <optional>

#include "rendezvous/store/store_server.hpp"
#include "tests/support/child.hpp"
#include "trainer/comm/make_communicator.hpp"

namespace ddprun::trainer {
namespace {

struct Fault {
  CommPhase phase = CommPhase::before_start;
  int bucket = -1;
  int signal = SIGKILL;
  int world_size = 2;
  int victim = 0;
  std::chrono::milliseconds limit{1000};
};

/// What a survivor said.
struct Testimony {
  std::string status;
  int rank = -9;
  int bucket = -9;
  int took_ms = -9;
  std::string detail;
};

std::optional<Testimony> read_testimony(const std::string& out) {
  Testimony testimony;
  char status[32] = {};
  int length = 0;
  if (std::sscanf(out.c_str(), "%31s rank=%d bucket=%d took_ms=%d detail=%n", status,
                  &testimony.rank, &testimony.bucket, &testimony.took_ms, &length) != 4) {
    return std::nullopt;
  }
  testimony.status = status;
  testimony.detail = out.substr(static_cast<std::size_t>(length));
  return testimony;
}

bool in_sum(CommPhase phase) {
  return phase != CommPhase::in_broadcast && phase != CommPhase::in_barrier;
}

/// Runs the ranks; returns what the survivors said.
std::vector<Testimony> survive(const Fault& fault) {
  auto listener = rdzv::listen_store("127.0.0.1", 0);
  REQUIRE(listener.has_value());
  const std::string port = std::to_string(listener->port);
  const auto server = rdzv::StoreServer::start(std::move(*listener)).value();

  const std::string mark = test::unique_mark();
  test::ChildOptions child_options;
  child_options.environment = {{"DDPRUN_TEST_MARK", mark}};
  std::vector<std::unique_ptr<test::Child>> ranks;
  for (int rank = 0; rank < fault.world_size; ++rank) {
    std::vector<std::string> command = {
        test::helper("comm_rank"),           std::to_string(rank),
        std::to_string(fault.world_size),    port,
        std::to_string(fault.limit.count()), in_sum(fault.phase) ? "sum" : "meet"};
    if (rank == fault.victim) {
      command.push_back(std::to_string(static_cast<int>(fault.phase)));
      command.push_back(std::to_string(fault.bucket));
      command.push_back(std::to_string(fault.signal));
    }
    ranks.push_back(std::make_unique<test::Child>(command, child_options));
  }
  std::vector<Testimony> survivors;
  for (int rank = 0; rank < fault.world_size; ++rank) {
    if (rank == fault.victim) continue;
    const test::ChildResult result = ranks[static_cast<std::size_t>(rank)]->wait();
    CAPTURE(rank, result.out, result.err);
    REQUIRE_FALSE(result.timed_out);
    REQUIRE(result.status == 0);
    const auto testimony = read_testimony(result.out);
    REQUIRE(testimony.has_value());
    survivors.push_back(*testimony);
  }
  test::Child& victim = *ranks[static_cast<std::size_t>(fault.victim)];
  victim.signal(SIGKILL);  // where it was only stopped
  CHECK(victim.wait().status == 128 + SIGKILL);
  ranks.clear();
  // The memory has no name anywhere: it is gone when no process is left that could map it.
  CHECK(test::processes_with("DDPRUN_TEST_MARK=" + mark).empty());
  return survivors;
}

void check_survivors(const Fault& fault, const std::string& status) {
  const std::vector<Testimony> survivors = survive(fault);
  CHECK(static_cast<int>(survivors.size()) == fault.world_size - 1);
  bool any = false;
  for (const Testimony& testimony : survivors) {
    CAPTURE(testimony.detail);
    // The first that gives up reports timed_out; the others learn from it for which rank.
    CHECK((testimony.status == status || testimony.status == "aborted"));
    any = any || testimony.status == status;
    CHECK(testimony.took_ms < fault.limit.count() + 5000);
    CHECK(testimony.rank == fault.victim);
    CHECK(testimony.detail.find("rank " + std::to_string(fault.victim)) != std::string::npos);
    // A victim that has announced a bucket, or done its share, is first missed in a later one,
    // maybe the next step's.
    if (fault.phase == CommPhase::before_start || fault.phase == CommPhase::in_slice) {
      CHECK(testimony.bucket == fault.bucket);
    } else if (in_sum(fault.phase)) {
      CHECK(testimony.bucket >= 0);
    } else {
      CHECK(testimony.bucket == -1);
    }
    if (in_sum(fault.phase)) {
      CHECK(testimony.detail.find("bucket " + std::to_string(testimony.bucket)) !=
            std::string::npos);
    }
  }
  CHECK(any);
}

CommPhase any_phase() {
  return GENERATE(CommPhase::before_start, CommPhase::after_ready, CommPhase::in_slice,
                  CommPhase::after_slice, CommPhase::in_broadcast, CommPhase::in_barrier);
}

int bucket_of(CommPhase phase) { return in_sum(phase) ? 2 : -1; }

TEST_CASE(
    "a rank killed in any phase makes the others return aborted and name it with the bucket") {
  Fault fault;
  fault.phase = any_phase();
  fault.bucket = bucket_of(fault.phase);
  fault.signal = SIGKILL;
  fault.world_size = GENERATE(2, 4);
  fault.victim = GENERATE(0, 1) == 0 ? 0 : fault.world_size - 1;
  fault.limit = std::chrono::seconds(30);  // what is noticed at once does not wait for it
  CAPTURE(static_cast<int>(fault.phase), fault.world_size, fault.victim);
  check_survivors(fault, "aborted");
}

TEST_CASE(
    "a rank stopped in any phase makes the others return at their deadline and name it "
    "with the bucket") {
  Fault fault;
  fault.phase = any_phase();
  fault.bucket = bucket_of(fault.phase);
  fault.signal = SIGSTOP;
  fault.world_size = GENERATE(2, 4);
  fault.victim = fault.phase == CommPhase::in_broadcast ? 0 : fault.world_size - 1;
  CAPTURE(static_cast<int>(fault.phase), fault.world_size, fault.victim);
  check_survivors(fault, "timed_out");
}

}  // namespace
}  // namespace ddprun::trainer
