// What every communicator promises, tried over each kind, and what setting one up refuses.
#include "trainer/comm/communicator.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>

#include "tests/unit/trainer/comm/rank_groups.hpp"
#include "tests/unit/trainer/comm/tree_reference.hpp"
#include "trainer/comm/shm_group.hpp"
#include "trainer/comm/shm_layout.hpp"

namespace ddprun::trainer {
namespace {

using namespace std::chrono_literals;
using test::GroupKind;
using test::GroupSettings;
using test::MemoryExchange;
using test::run_group;
using test::soon;

/// Collects what the ranks found wrong.
class Problems {
 public:
  void expect(bool holds, const Communicator& communicator, const std::string& what) {
    if (holds) return;
    const std::lock_guard lock(mutex_);
    all_.push_back("rank " + std::to_string(communicator.rank()) + ": " + what);
  }
  std::vector<std::string> all() const { return all_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> all_;
};

std::vector<std::byte> pattern(std::size_t bytes, int seed) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    all[i] = static_cast<std::byte>((i * 7 + static_cast<std::size_t>(seed) * 31) & 0xff);
  return all;
}

TEST_CASE("broadcast, all_gather and barrier mix in any order and size") {
  const GroupKind kind = GENERATE(GroupKind::fake, GroupKind::shared_memory);
  const int world = GENERATE(1, 2, 3, 5);
  Problems problems;
  const auto mistakes = run_group({kind, world, world, 16, 9}, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    for (std::size_t bytes :
         {0ul, 1ul, 1000ul, kStagingHalfBytes, kStagingHalfBytes + 1, 3 * kStagingHalfBytes + 77}) {
      for (int root = 0; root < world; ++root) {
        std::vector<std::byte> sent =
            rank == root ? pattern(bytes, root) : std::vector<std::byte>(bytes);
        problems.expect(communicator.broadcast(sent, root, soon()).ok(), communicator,
                        "broadcast failed");
        problems.expect(sent == pattern(bytes, root), communicator,
                        "broadcast brought other bytes");
      }
      problems.expect(communicator.barrier(soon()).ok(), communicator, "barrier failed");
      const std::vector<std::byte> mine = pattern(bytes, rank);
      std::vector<std::byte> all(bytes * static_cast<std::size_t>(world));
      problems.expect(communicator.all_gather(mine, all, soon()).ok(), communicator,
                      "all_gather failed");
      for (int from = 0; from < world; ++from) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(bytes) * from;
        const std::vector<std::byte> piece(begin, begin + static_cast<std::ptrdiff_t>(bytes));
        problems.expect(piece == pattern(bytes, from), communicator,
                        "all_gather brought other bytes");
      }
    }
  });
  CHECK(mistakes.empty());
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("no rank passes a barrier before all have entered it") {
  std::atomic<int> entered{0};
  Problems problems;
  run_group({GroupKind::shared_memory, 3, 3, 16, 1}, [&](Communicator& communicator) {
    for (int round = 1; round <= 200; ++round) {
      ++entered;
      problems.expect(communicator.barrier(soon()).ok(), communicator, "barrier failed");
      problems.expect(entered.load() >= 3 * round, communicator, "passed early");
      problems.expect(communicator.barrier(soon()).ok(), communicator, "barrier failed");
    }
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("sums of every size, odd ranges and many tickets at once are right everywhere") {
  const int world = GENERATE(2, 3, 4);
  const std::size_t floats = 600'000;
  const std::vector<Range> ranges = {
      {0, 0}, {0, 1}, {1, 17}, {17, 5000}, {5000, 260'000}, {260'000, 260'016}, {260'016, floats}};
  Problems problems;
  run_group({GroupKind::shared_memory, world, world, floats, 1}, [&](Communicator& communicator) {
    for (int step = 0; step < 5; ++step) {
      std::vector<std::vector<float>> shards;
      for (int shard = 0; shard < world; ++shard) {
        shards.push_back(test::rough_floats(floats, static_cast<std::uint32_t>(step * 10 + shard)));
      }
      const auto& mine = shards[static_cast<std::size_t>(communicator.rank())];
      std::copy(mine.begin(), mine.end(), communicator.arena(0).begin());
      Ticket last = 0;
      for (std::size_t bucket = 0; bucket < ranges.size(); ++bucket) {
        last = communicator.start(static_cast<int>(bucket), ranges[bucket]);
        if (communicator.rank() != 1) communicator.progress();
      }
      problems.expect(communicator.finish(last, soon()).ok(), communicator, "finish failed");
      problems.expect(test::same_bits(communicator.arena(0), test::tree_sum(shards, 0, world)),
                      communicator, "other bits");
    }
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("as many sums may be started as the contract says, many times over") {
  const std::size_t floats = 64;
  Problems problems;
  run_group({GroupKind::shared_memory, 2, 2, floats, 1}, [&](Communicator& communicator) {
    for (int round = 0; round < 4; ++round) {
      std::fill(communicator.arena(0).begin(), communicator.arena(0).end(), 1.0F);
      Ticket last = 0;
      for (int bucket = 0; bucket < kStartedMax; ++bucket) {
        const auto at = static_cast<std::size_t>(bucket) % floats;
        last = communicator.start(bucket, bucket < 64 ? Range{at, at + 1} : Range{0, 0});
      }
      problems.expect(communicator.finish(last, soon()).ok(), communicator, "finish failed");
      problems.expect(communicator.arena(0)[63] == 2.0F, communicator, "other sum");
    }
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("notes are there once a later sum is done, also after an abort") {
  Problems problems;
  run_group({GroupKind::shared_memory, 3, 3, 64, 1}, [&](Communicator& communicator) {
    problems.expect(communicator.has_notes(), communicator, "no notes");
    const auto bytes = [](auto& value) { return std::as_writable_bytes(std::span(&value, 1)); };
    for (std::uint64_t number = 1; number <= 20; ++number) {
      std::uint64_t mine = number * 10 + static_cast<std::uint64_t>(communicator.rank());
      communicator.leave_note(number, bytes(mine));
      const Ticket ticket = communicator.start(0, {64, 64});
      problems.expect(communicator.finish(ticket, soon()).ok(), communicator, "finish failed");
      for (int rank = 0; rank < 3; ++rank) {
        std::uint64_t there = 0;
        problems.expect(communicator.read_note(rank, number, bytes(there)) &&
                            there == number * 10 + static_cast<std::uint64_t>(rank),
                        communicator, "another note");
      }
    }
    communicator.abort("the test says so");
    std::uint64_t there = 0;
    problems.expect(communicator.read_note(1, 20, bytes(there)) && there == 201, communicator,
                    "no note after the abort");
    problems.expect(!communicator.read_note(1, 20 - kNotesKept, bytes(there)), communicator,
                    "an old note");
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("an abort ends present and later calls of every rank with a reason") {
  const GroupKind kind = GENERATE(GroupKind::fake, GroupKind::shared_memory);
  const int world = GENERATE(1, 2, 3);
  Problems problems;
  run_group({kind, world, world, 64, 3}, [&](Communicator& communicator) {
    problems.expect(communicator.barrier(soon()).ok(), communicator, "barrier failed");
    if (communicator.rank() == world - 1) communicator.abort("the test says so");
    const auto aborted = [&](const CommResult& result, const std::string& call) {
      problems.expect(result.status == CommStatus::aborted, communicator,
                      call + " was not aborted");
      problems.expect(result.detail.find("the test says so") != std::string::npos, communicator,
                      result.detail);
    };
    std::byte byte{};
    std::vector<std::byte> all(static_cast<std::size_t>(world));
    if (communicator.rank() != world - 1) {
      const CommResult result = communicator.barrier(soon());  // the aborting rank never comes here
      aborted(result, "barrier");
    }
    aborted(communicator.broadcast({&byte, 1}, 0, soon()), "broadcast");
    aborted(communicator.all_gather({&byte, 1}, all, soon()), "all_gather");
    aborted(communicator.barrier(soon()), "barrier");
    aborted(communicator.finish(communicator.start(0, {0, 64}), soon()), "finish");
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("a rank that never starts a bucket is named when the deadline has passed") {
  Problems problems;
  std::atomic<bool> finished{false};
  run_group({GroupKind::shared_memory, 2, 2, 64, 1}, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      while (!finished) std::this_thread::yield();
      const CommResult result = communicator.barrier(soon());
      problems.expect(result.status == CommStatus::aborted && result.rank == 1, communicator,
                      result.detail);
      return;
    }
    const CommResult result =
        communicator.finish(communicator.start(7, {0, 64}), Clock::now() + 5ms);
    problems.expect(result.status == CommStatus::timed_out, communicator, "not timed out");
    problems.expect(result.rank == 1 && result.bucket == 7, communicator, result.detail);
    problems.expect(result.detail.find("bucket 7") != std::string::npos, communicator,
                    result.detail);
    problems.expect(result.detail.find("rank 1") != std::string::npos, communicator, result.detail);
    // The rank that gives up tells the others which one it waited for.
    const CommResult barrier = communicator.barrier(soon());
    problems.expect(
        barrier.status == CommStatus::aborted && barrier.rank == 1 && barrier.bucket == 7,
        communicator, barrier.detail);
    finished = true;
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE(
    "a rank that leaves while others need it makes them return aborted, and one that is not "
    "waited for does not") {
  Problems problems;
  run_group({GroupKind::shared_memory, 3, 3, 64, 1}, [&](Communicator& communicator) {
    const Ticket first = communicator.start(0, {0, 32});
    problems.expect(communicator.finish(first, soon()).ok(), communicator, "finish failed");
    if (communicator.rank() == 2) return;
    const CommResult result = communicator.finish(communicator.start(1, {32, 64}), soon());
    problems.expect(result.status == CommStatus::aborted, communicator, "not aborted");
    problems.expect(result.rank == 2 && result.bucket == 1, communicator, result.detail);
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

CommSetup make(const CommOptions& options, Exchange* exchange, Clock::duration limit = 5ms) {
  return make_communicator(options, exchange, Clock::now() + limit);
}

TEST_CASE("options that can never work are refused with what to do") {
  MemoryExchange exchange;
  CommOptions options;
  options.arena_floats = 16;
  options.rank = 2;
  options.world_size = 2;
  options.shards = 2;
  CommSetup setup = make(options, &exchange);
  CHECK((setup.refused && !setup.result.ok() && setup.communicator == nullptr));
  CHECK_THAT(setup.result.detail, Catch::Contains("RANK"));

  options.rank = 0;
  options.shards = 1;
  setup = make(options, &exchange);
  CHECK(setup.refused);
  CHECK_THAT(setup.result.detail, Catch::Contains("1 shards for 2 ranks"));

  options.shards = 2;
  setup = make(options, nullptr);
  CHECK(setup.refused);
  CHECK_THAT(setup.result.detail, Catch::Contains("MASTER_ADDR"));

  options.world_size = 1000;
  options.shards = 1000;
  CHECK(make(options, &exchange).refused);
}

TEST_CASE("a rank that does not come is named when the deadline of the setup has passed") {
  MemoryExchange exchange;
  CommOptions options{.rank = 0, .world_size = 2, .shards = 2, .arena_floats = 16};
  const CommSetup setup = make(options, &exchange);
  CHECK_FALSE(setup.refused);
  CHECK(setup.result.status == CommStatus::timed_out);
  CHECK(setup.result.rank == 1);
  CHECK_THAT(setup.result.detail, Catch::Contains("rank 1"));
}

/// What rank 1 announces, changed by the test before rank 0 reads it.
CommSetup join_with(const std::function<void(Announcement&)>& change) {
  MemoryExchange exchange;
  CommOptions options{.rank = 0, .world_size = 2, .shards = 2, .arena_floats = 16};
  auto segment = SharedSegment::create(SegmentLayout(1, 2, 2, 16).bytes);
  auto* block = reinterpret_cast<RankBlock*>(segment->data());
  block->magic = kShmMagic;
  block->nonce = 5;
  block->rank = 1;
  Announcement announcement{
      own_identity(), segment->fd(), segment->bytes(), segment->inode(), 5, 2, 2, 16};
  change(announcement);
  (void)exchange.set(options.group + "/shm/1", announcement.text(), soon());
  return make(options, &exchange);
}

TEST_CASE("ranks on several hosts or in several containers are refused with a message") {
  CommSetup setup = join_with([](Announcement& one) { one.process.boot_id = "another"; });
  CHECK(setup.refused);
  CHECK_THAT(setup.result.detail, Catch::Contains("several hosts: not in this version"));
  setup = join_with([](Announcement& one) { one.process.pid_namespace = "pid:[1]"; });
  CHECK(setup.refused);
  CHECK_THAT(setup.result.detail, Catch::Contains("container"));
}

TEST_CASE("memory that is not what was announced is not used") {
  CHECK(join_with([](Announcement&) {}).result.status ==
        CommStatus::timed_out);  // as announced: waits in the barrier
  CHECK_FALSE(join_with([](Announcement& one) { one.inode += 1; }).result.ok());
  CHECK_FALSE(join_with([](Announcement& one) { one.bytes += 4096; }).result.ok());
  CHECK_FALSE(join_with([](Announcement& one) { one.fd = 9999; }).result.ok());
  const CommSetup setup = join_with([](Announcement& one) { one.nonce += 1; });
  CHECK(setup.refused);
}

TEST_CASE("ranks with unlike options refuse each other") {
  MemoryExchange exchange;
  std::vector<CommSetup> setups(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      CommOptions options{
          .rank = rank, .world_size = 2, .shards = 2 + 2 * rank, .arena_floats = 16};
      setups[static_cast<std::size_t>(rank)] = make(options, &exchange, 10s);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const CommSetup& setup : setups) {
    CHECK(setup.refused);
    CHECK_THAT(setup.result.detail, Catch::Contains("same options"));
  }
}

}  // namespace
}  // namespace ddprun::trainer
