#include "trainer/comm/reducer.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <random>

#include "tests/unit/trainer/comm/rank_groups.hpp"
#include "tests/unit/trainer/comm/tree_reference.hpp"
#include "tests/unit/trainer/host/host_executor.hpp"
#include "trainer/comm/make_communicator.hpp"

namespace ddprun::trainer {
namespace {

using test::GroupKind;
using test::GroupSettings;
using test::rough_floats;
using test::run_group;
using test::same_bits;
using test::soon;
using test::tree_sum;

constexpr std::size_t kFloats = 1500;
constexpr BucketSizes kSmallBuckets{.bytes = 1280, .first_bytes = 512, .last_bytes = 320};

std::vector<float> gradients_of(int step, int shard) {
  return rough_floats(kFloats, static_cast<std::uint32_t>(step * 1000 + shard));
}

std::vector<float> expected_sum(int step, int shards) {
  std::vector<std::vector<float>> all;
  for (int shard = 0; shard < shards; ++shard) all.push_back(gradients_of(step, shard));
  return tree_sum(all, 0, shards);
}

/// Computes this rank's shards in lanes that advance in an order of their own, as threads side by
/// side would.
void run_backward(Reducer& reducer, ShardRun run, int lanes, int step, std::mt19937& random) {
  struct Lane {
    int shard;
    std::vector<float> values;
    std::span<float> target;
    std::size_t at = 0;
  };
  std::vector<Lane> running;
  int next = run.first;
  const int end = run.first + run.count;
  while (next < end || !running.empty()) {
    if (next < end && running.size() < static_cast<std::size_t>(lanes)) {
      running.push_back({next, gradients_of(step, next), reducer.begin_shard(next).floats});
      ++next;
      continue;
    }
    const std::size_t which = random() % running.size();
    Lane& lane = running[which];
    const std::size_t until = std::min(kFloats, lane.at + 1 + random() % 300);
    std::copy(lane.values.begin() + lane.at, lane.values.begin() + until,
              lane.target.begin() + lane.at);
    lane.at = until;
    reducer.final_up_to(lane.shard, lane.at);
    if (lane.at == kFloats) running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
  }
}

/// Runs steps on every rank; returns what went wrong, in words.
std::vector<std::string> check_steps(const GroupSettings& settings, int lanes, int steps) {
  std::vector<std::vector<float>> expected;
  for (int step = 0; step < steps; ++step) expected.push_back(expected_sum(step, settings.shards));
  std::mutex mutex;
  std::vector<std::string> problems;
  const auto body = [&](Communicator& communicator) {
    std::mt19937 random(settings.seed * 31 + static_cast<std::uint32_t>(communicator.rank()));
    Reducer reducer(communicator, test::host(), settings.shards, kFloats, kSmallBuckets);
    const ShardRun run = shard_run(settings.shards, settings.world_size, communicator.rank());
    for (int step = 0; step < steps; ++step) {
      reducer.begin_step();
      run_backward(reducer, run, lanes, step, random);
      const CommResult result = reducer.finish_step(soon());
      std::string problem;
      if (!result.ok()) problem = result.detail;
      if (!same_bits(reducer.gradients(), expected[static_cast<std::size_t>(step)]))
        problem += "other bits";
      if (problem.empty()) continue;
      const std::lock_guard lock(mutex);
      problems.push_back("rank " + std::to_string(communicator.rank()) + " step " +
                         std::to_string(step) + ": " + problem);
      return;
    }
  };
  for (const std::string& mistake : run_group(settings, body)) problems.push_back(mistake);
  return problems;
}

const std::vector<std::string> kNone;

TEST_CASE(
    "the reduced gradients have the same bits for every number of shards up to 16 and every world "
    "size") {
  for (int shards = 1; shards <= 16; ++shards) {
    for (int world = 1; world <= shards; ++world) {
      CAPTURE(shards, world);
      CHECK(check_steps({GroupKind::fake, world, shards, kFloats, 5}, 1, 2) == kNone);
    }
  }
}

TEST_CASE(
    "no schedule, delay or number of lanes changes a bit or breaks the communicator's rules") {
  std::mt19937 random(11);
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    const int shards = 1 + static_cast<int>(random() % 9);
    const int world = 1 + static_cast<int>(random() % static_cast<unsigned>(shards));
    const int lanes = 1 + static_cast<int>(random() % 4);
    CAPTURE(seed, shards, world, lanes);
    CHECK(check_steps({GroupKind::fake, world, shards, kFloats, seed}, lanes, 3) == kNone);
  }
}

TEST_CASE("ranks that share memory reduce to the same bits as the fake group") {
  for (const auto& [shards, world] :
       {std::pair{1, 1}, {2, 2}, {4, 2}, {4, 3}, {4, 4}, {6, 3}, {7, 5}, {8, 3}, {16, 4}}) {
    CAPTURE(shards, world);
    CHECK(check_steps({GroupKind::shared_memory, world, shards, kFloats, 3}, 2, 20) == kNone);
  }
}

TEST_CASE("lanes that are threads of their own may share one reducer") {
  const int shards = 8;
  const std::vector<float> expected = expected_sum(0, shards);
  std::atomic<int> wrong{0};
  const auto problems =
      run_group({GroupKind::shared_memory, 2, shards, kFloats, 1}, [&](Communicator& communicator) {
        Reducer reducer(communicator, test::host(), shards, kFloats, kSmallBuckets);
        const ShardRun run = shard_run(shards, 2, communicator.rank());
        for (int step = 0; step < 20; ++step) {
          reducer.begin_step();
          std::atomic<int> next{run.first};
          std::vector<std::thread> lanes;
          for (int lane = 0; lane < 2; ++lane) {
            lanes.emplace_back([&] {
              for (int shard = next++; shard < run.first + run.count; shard = next++) {
                const std::vector<float> values = gradients_of(0, shard);
                const std::span<float> target = reducer.begin_shard(shard).floats;
                for (std::size_t at = 0; at < kFloats; at += 150) {
                  std::copy(values.begin() + at, values.begin() + at + 150, target.begin() + at);
                  reducer.final_up_to(shard, at + 150);
                }
              }
            });
          }
          for (std::thread& lane : lanes) lane.join();
          if (!reducer.finish_step(soon()).ok() || !same_bits(reducer.gradients(), expected))
            ++wrong;
        }
      });
  CHECK(problems == kNone);
  CHECK(wrong == 0);
}

TEST_CASE(
    "only the last shard of a rank starts buckets, in index order, as the watermark passes them") {
  /// Remembers what is started.
  class Recorder : public LocalCommunicator {
   public:
    using LocalCommunicator::LocalCommunicator;
    Ticket start(int bucket, Range range) override {
      started.push_back(bucket);
      return LocalCommunicator::start(bucket, range);
    }
    std::vector<int> started;
  };
  Recorder recorder(kFloats);
  Reducer reducer(recorder, test::host(), 2, kFloats, kSmallBuckets);
  REQUIRE(reducer.buckets().size() > 3);
  reducer.begin_step();
  reducer.begin_shard(0);
  reducer.final_up_to(0, kFloats);
  CHECK(recorder.started.empty());
  reducer.begin_shard(1);
  reducer.final_up_to(1, reducer.buckets()[0].end - 1);
  CHECK(recorder.started.empty());
  reducer.final_up_to(1, reducer.buckets()[0].end);
  CHECK(recorder.started == std::vector<int>{0});
  reducer.final_up_to(1, reducer.buckets()[2].end + 1);
  CHECK(recorder.started == std::vector<int>{0, 1, 2});
  reducer.final_up_to(1, kFloats);
  CHECK(reducer.finish_step(soon()).ok());
  CHECK(recorder.started.size() == reducer.buckets().size());
}

TEST_CASE(
    "a group aborted at any event ends every rank's step, with all sums complete or a result that "
    "says aborted") {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    FakeSettings settings{.world_size = 3, .shards = 4, .arena_floats = kFloats, .seed = seed};
    settings.abort_after_events = static_cast<int>(seed * 3);
    settings.abort_rank = 1;
    CAPTURE(seed);
    std::vector<std::string> problems;
    int aborted = 0;
    FakeGroup group(settings);
    group.run([&](Communicator& communicator) {
      std::mt19937 random(seed);
      Reducer reducer(communicator, test::host(), 4, kFloats, kSmallBuckets);
      const ShardRun run = shard_run(4, 3, communicator.rank());
      for (int step = 0; step < 20; ++step) {
        reducer.begin_step();
        run_backward(reducer, run, 1, step, random);
        const CommResult result = reducer.finish_step(soon());
        if (result.ok()) {
          if (!same_bits(reducer.gradients(), expected_sum(step, 4)))
            problems.push_back("other bits");
          continue;
        }
        ++aborted;
        if (result.status != CommStatus::aborted || result.rank != 1 || result.bucket < 0)
          problems.push_back(result.detail);
        return;
      }
    });
    CHECK(problems == kNone);
    CHECK(group.mistakes() == kNone);
    CHECK(aborted == 3);
  }
}

TEST_CASE("a rank that stops taking part is named with the bucket that waits for it") {
  FakeSettings settings{.world_size = 2, .shards = 2, .arena_floats = kFloats, .seed = 4};
  FakeGroup group(settings);
  CommResult result;
  group.run([&](Communicator& communicator) {
    Reducer reducer(communicator, test::host(), 2, kFloats, kSmallBuckets);
    reducer.begin_step();
    reducer.begin_shard(communicator.rank());
    if (communicator.rank() == 1) {
      reducer.final_up_to(1, reducer.buckets()[2].end);
      return;
    }
    reducer.final_up_to(0, kFloats);
    result = reducer.finish_step(soon());
  });
  CHECK(result.status == CommStatus::timed_out);
  CHECK(result.rank == 1);
  CHECK(result.bucket == 3);
}

}  // namespace
}  // namespace ddprun::trainer
