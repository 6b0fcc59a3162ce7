#include "trainer/comm/shard_sums.hpp"

#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/trainer/comm/tree_reference.hpp"
#include "tests/unit/trainer/host/host_executor.hpp"

namespace ddprun::trainer {
namespace {

using test::rough_floats;
using test::same_bits;
using test::tree_sum;

constexpr std::size_t kTreeFloats = 200;

std::vector<std::vector<float>> make_shards(int count) {
  std::vector<std::vector<float>> shards;
  for (int shard = 0; shard < count; ++shard) {
    shards.push_back(rough_floats(kTreeFloats, static_cast<std::uint32_t>(shard)));
  }
  return shards;
}

/// The accumulator of one run with arenas of its own.
struct Fixture {
  Fixture(int shard_count, ShardRun its_run)
      : run(its_run), nodes(local_nodes(shard_count, its_run)) {
    arenas.assign(nodes.size(), std::vector<float>(kTreeFloats, -77.0F));
    accumulator = std::make_unique<TreeAccumulator>(
        shard_count, run, std::vector<std::span<float>>(arenas.begin(), arenas.end()),
        test::host());
  }

  void check_sums(const std::vector<std::vector<float>>& shards) const {
    for (std::size_t slot = 0; slot < nodes.size(); ++slot) {
      REQUIRE(same_bits(arenas[slot], tree_sum(shards, nodes[slot].first, nodes[slot].count)));
    }
  }

  ShardRun run;
  std::vector<TreeNode> nodes;
  std::vector<std::vector<float>> arenas;
  std::unique_ptr<TreeAccumulator> accumulator;
};

/// Writes shard gradients piece by piece, as an executor does.
class Writer {
 public:
  Writer(TreeAccumulator& accumulator, int shard, const std::vector<float>& values)
      : accumulator_(accumulator),
        shard_(shard),
        values_(values),
        target_(accumulator.begin(shard).floats) {
    std::fill(target_.begin(), target_.end(), 1e30F);  // what is not final must not matter
  }
  bool done() const { return at_ == values_.size(); }
  std::size_t write(std::size_t count) {
    const std::size_t end = std::min(at_ + count, values_.size());
    std::copy(values_.begin() + at_, values_.begin() + end, target_.begin() + at_);
    at_ = end;
    return accumulator_.final_up_to(shard_, at_);
  }

 private:
  TreeAccumulator& accumulator_;
  int shard_;
  const std::vector<float>& values_;
  std::span<float> target_;
  std::size_t at_ = 0;
};

TEST_CASE("shards computed one after another are summed in tree order, step after step") {
  for (int count = 1; count <= 16; ++count) {
    const auto shards = make_shards(count);
    for (int world = 1; world <= count; ++world) {
      for (int rank = 0; rank < world; ++rank) {
        CAPTURE(count, world, rank);
        Fixture fixture(count, shard_run(count, world, rank));
        for (int step = 0; step < 2; ++step) {
          fixture.accumulator->reset();
          std::size_t final = 0;
          for (int shard = fixture.run.first; shard < fixture.run.first + fixture.run.count;
               ++shard) {
            Writer writer(*fixture.accumulator, shard, shards[static_cast<std::size_t>(shard)]);
            REQUIRE(final == 0);  // nothing is final before the last shard has begun
            while (!writer.done()) final = writer.write(64);
          }
          REQUIRE(final == kTreeFloats);
          fixture.check_sums(shards);
        }
      }
    }
  }
}

TEST_CASE("one lane needs at most the logarithm of the largest node in scratch arenas") {
  for (int count : {1, 2, 3, 4, 7, 8, 16, 33, 64}) {
    const auto shards = make_shards(count);
    Fixture fixture(count, {0, count});
    for (int shard = 0; shard < count; ++shard) {
      Writer writer(*fixture.accumulator, shard, shards[static_cast<std::size_t>(shard)]);
      while (!writer.done()) writer.write(100);
    }
    fixture.check_sums(shards);
    CHECK(static_cast<int>(fixture.accumulator->scratch_arenas()) <=
          static_cast<int>(std::bit_width(static_cast<unsigned>(count - 1))));
  }
}

TEST_CASE("a range is final when the last of several shards side by side has reached it") {
  const auto shards = make_shards(2);
  Fixture fixture(2, {0, 2});
  Writer first(*fixture.accumulator, 0, shards[0]);
  Writer second(*fixture.accumulator, 1, shards[1]);
  CHECK(second.write(150) == 0);
  CHECK(first.write(30) == 30);
  CHECK(first.write(170) == 150);
  CHECK(second.write(50) == 200);
  fixture.check_sums(shards);
}

TEST_CASE("lanes that advance in any order change no bit") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const int count = 1 + static_cast<int>(random() % 16);
    const int world = 1 + static_cast<int>(random() % static_cast<unsigned>(count));
    const int lanes = 1 + static_cast<int>(random() % 5);
    const auto shards = make_shards(count);
    Fixture fixture(
        count, shard_run(count, world, static_cast<int>(random() % static_cast<unsigned>(world))));
    CAPTURE(round, count, world, lanes, fixture.run.first);
    int next = fixture.run.first;
    const int end = fixture.run.first + fixture.run.count;
    std::vector<std::unique_ptr<Writer>> running;
    std::size_t final = 0;
    while (next < end || !running.empty()) {
      if (next < end && running.size() < static_cast<std::size_t>(lanes)) {
        running.push_back(std::make_unique<Writer>(*fixture.accumulator, next,
                                                   shards[static_cast<std::size_t>(next)]));
        ++next;
        continue;
      }
      const std::size_t lane = random() % running.size();
      final = running[lane]->write(1 + random() % 90);
      if (running[lane]->done()) running.erase(running.begin() + static_cast<std::ptrdiff_t>(lane));
    }
    REQUIRE(final == kTreeFloats);
    fixture.check_sums(shards);
  }
}

TEST_CASE("lanes on threads of their own change no bit") {
  const int count = 13;
  const auto shards = make_shards(count);
  for (int round = 0; round < 50; ++round) {
    Fixture fixture(count, {0, count});
    std::atomic<int> next{0};
    std::atomic<bool> reported{false};
    const auto lane = [&] {
      for (int shard = next++; shard < count; shard = next++) {
        Writer writer(*fixture.accumulator, shard, shards[static_cast<std::size_t>(shard)]);
        while (!writer.done()) {
          if (writer.write(17) == kTreeFloats) reported = true;
        }
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back(lane);
    for (std::thread& thread : threads) thread.join();
    REQUIRE(reported);  // one lane was told that all is final
    fixture.check_sums(shards);
  }
}

constexpr std::size_t kChainFloats = 100;

TEST_CASE("the shards of a chain are added in one arena, and are final with the last one") {
  std::vector<float> arena(kChainFloats);
  ChainAccumulator sums({2, 3}, arena);
  for (int step = 0; step < 2; ++step) {
    sums.reset();
    for (const int shard : {2, 3, 4}) {
      CAPTURE(step, shard);
      const GradientArena gradients = sums.begin(shard);
      CHECK(gradients.floats.data() == arena.data());
      CHECK(gradients.floats.size() == kChainFloats);
      CHECK(gradients.accumulates == (shard > 2));  // the first one overwrites the last step's
      const bool is_last = shard == 4;
      CHECK(sums.final_up_to(shard, 30) == (is_last ? 30 : 0));
      CHECK(sums.final_up_to(shard, kChainFloats) == (is_last ? kChainFloats : 0));
    }
  }
}

TEST_CASE("a rank with one shard adds nothing") {
  std::vector<float> arena(kChainFloats);
  ChainAccumulator sums({5, 1}, arena);
  CHECK_FALSE(sums.begin(5).accumulates);
  CHECK(sums.final_up_to(5, 70) == 70);
}

}  // namespace

}  // namespace ddprun::trainer
