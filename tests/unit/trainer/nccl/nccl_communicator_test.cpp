// Sums over emulated GPUs: the bits of the shard tree, for any number of ranks and any order of
// streams.
#include "trainer/nccl/nccl_communicator.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/trainer/comm/tree_reference.hpp"
#include "tests/unit/trainer/nccl/nccl_ranks.hpp"
#include "trainer/comm/reducer.hpp"

namespace ddprun::trainer {
namespace {

using test::NcclRank;
using test::Problems;
using test::run_nccl_group;
using test::soon;

std::vector<std::byte> pattern(std::size_t bytes, int seed) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    all[i] = static_cast<std::byte>((i * 7 + static_cast<std::size_t>(seed) * 31) & 0xff);
  return all;
}

/// Each local node's sum, as the accumulator leaves it.
void write_local_sums(NcclRank& one, const std::vector<std::vector<float>>& shards) {
  const int count = static_cast<int>(shards.size());
  const ShardRun run = shard_run(count, one.communicator.world_size(), one.communicator.rank());
  int slot = 0;
  for (const TreeNode& node : local_nodes(count, run))
    one.write(test::tree_sum(shards, node.first, node.count), slot++);
}

TEST_CASE("sums are those of the shard tree on every rank, whatever the world size") {
  const int world = GENERATE(2, 3, 4, 7);
  const int shards = world + GENERATE(0, 1, 5);
  const std::size_t floats = 5'000;
  const std::vector<Range> ranges = {{0, 16}, {16, 32}, {32, 1040}, {1040, 5'000}};
  Problems problems;
  run_nccl_group(
      {.world_size = world, .shards = shards, .arena_floats = floats}, problems,
      [&](NcclRank& one) {
        for (int step = 0; step < 3; ++step) {
          std::vector<std::vector<float>> values;
          for (int shard = 0; shard < shards; ++shard) {
            values.push_back(
                test::rough_floats(floats, static_cast<std::uint32_t>(step * 99 + shard)));
          }
          write_local_sums(one, values);
          Ticket last = 0;
          for (std::size_t bucket = 0; bucket < ranges.size(); ++bucket) {
            last = one.communicator.start(static_cast<int>(bucket), ranges[bucket]);
            one.communicator.progress();
          }
          problems.expect(one.communicator.finish(last, soon()).ok(), one, "finish failed");
          problems.expect(test::same_bits(one.read(), test::tree_sum(values, 0, shards)), one,
                          "other bits");
        }
      });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("in a chain each rank has one arena, and NCCL adds them up") {
  Problems problems;
  run_nccl_group({.world_size = 3, .shards = 8, .arena_floats = 1000, .order = SumOrder::chain},
                 problems, [&](NcclRank& one) {
                   one.write(std::vector<float>(1000, static_cast<float>(one.communicator.rank())));
                   static_cast<void>(one.communicator.start(0, {0, 100}));
                   const Ticket last = one.communicator.start(1, {100, 1000});
                   problems.expect(one.communicator.finish(last, soon()).ok(), one,
                                   "finish failed");
                   problems.expect(one.read() == std::vector<float>(1000, 3.0F), one, "other sums");
                 });
  CHECK(problems.all() == std::vector<std::string>{});
}

/// Sums of three steps, each added to what the steps before came to.
std::vector<std::string> problems_of_steps(std::uint64_t seed, std::uint64_t forgotten_wait) {
  Problems problems;
  run_nccl_group(
      {.arena_floats = 64, .seed = seed, .forgotten_wait = forgotten_wait}, problems,
      [&](NcclRank& one) {
        const DeviceMemory kept = one.device.allocate(64 * sizeof(float));
        for (int step = 1; step <= 3; ++step) {
          // As backward does: one bucket is final and under way while the next one is computed.
          const std::vector<float> half(32, static_cast<float>(step));
          float* const gradients = one.communicator.arena(0).data();
          one.device.copy_in(std::as_bytes(std::span(half)), gradients);
          Ticket last = one.communicator.start(0, {0, 32});
          one.device.copy_in(std::as_bytes(std::span(half)), gradients + 32);
          last = one.communicator.start(1, {32, 64});
          for (Ticket ticket = last - 1; ticket <= last; ++ticket)
            problems.expect(one.communicator.finish(ticket, soon()).ok(), one, "finish failed");
          one.device.add_into(kept.as<float>(), one.communicator.arena(0).data());
        }
        std::vector<float> sums(64);
        one.device.copy_out(kept.data(), std::as_writable_bytes(std::span(sums)));
        problems.expect(sums == std::vector<float>(64, 2.0F * (1 + 2 + 3)), one, "other sums");
        // Neither leaves while the other one needs it.
        problems.expect(one.communicator.barrier(soon()).ok(), one, "barrier failed");
      });
  return problems.all();
}

TEST_CASE(
    "what the GPU is given after finish() comes after the sum, for any order of its streams") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    REQUIRE(problems_of_steps(seed, 0) == std::vector<std::string>{});
  }
}

TEST_CASE("a wait that is left out shows as wrong sums") {
  // A step has these waits: each bucket waits for what was computed, and then the sums are waited
  // for.
  for (std::uint64_t wait = 1; wait <= 4; ++wait) {
    bool is_found = false;
    for (std::uint64_t seed = 1; seed <= 400 && !is_found; ++seed)
      is_found = !problems_of_steps(seed, wait).empty();
    CAPTURE(wait);
    CHECK(is_found);
  }
}

TEST_CASE("the memory that sums take of a GPU is known beforehand") {
  const int world = GENERATE(2, 3, 5);
  const int shards = world + GENERATE(0, 4);
  const std::size_t floats = 100'000;
  const SumOrder order = GENERATE(SumOrder::tree, SumOrder::chain);
  Problems problems;
  run_nccl_group(
      {.world_size = world, .shards = shards, .arena_floats = floats, .order = order}, problems,
      [&](NcclRank& one) {
        problems.expect(one.communicator.barrier(soon()).ok(), one, "barrier failed");
        const int rank = one.communicator.rank();
        const auto slots = local_nodes(shards, shard_run(shards, world, rank), order).size();
        const std::size_t planned =
            slots * floats * sizeof(float) + nccl::gpu_bytes_of_sums({.rank = rank,
                                                                      .world_size = world,
                                                                      .shards = shards,
                                                                      .order = order,
                                                                      .arena_floats = floats,
                                                                      .on_phase = {}});
        const std::size_t used = one.gpu.memory_used();
        const std::size_t tables = 4096;  // and ends of pieces
        problems.expect(
            planned <= used && used <= planned + tables, one,
            std::to_string(used) + " bytes where " + std::to_string(planned) + " were planned");
      });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("communicators one after the other leave no memory on the GPU") {
  const SumOrder order = GENERATE(SumOrder::tree, SumOrder::chain);
  Problems problems;
  std::size_t at_first = 0;
  run_nccl_group({.arena_floats = 1000, .order = order, .rounds = 3}, problems, [&](NcclRank& one) {
    one.write(std::vector<float>(1000, 1.0F));
    problems.expect(one.communicator.finish(one.communicator.start(0, {0, 1000}), soon()).ok(), one,
                    "finish failed");
    problems.expect(one.communicator.barrier(soon()).ok(), one, "barrier failed");
    if (one.communicator.rank() != 0) return;
    if (at_first == 0) at_first = one.gpu.memory_used();
    problems.expect(one.gpu.memory_used() == at_first, one, "memory is left of another one");
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("how long the sums took is not known where the host does not wait for them") {
  Problems problems;
  run_nccl_group({.arena_floats = 64}, problems, [&](NcclRank& one) {
    Reducer reducer(one.communicator, one.device, 2, 64);
    reducer.begin_step();
    const int shard = one.communicator.rank();
    one.device.clear(std::as_writable_bytes(reducer.begin_shard(shard).floats));
    reducer.final_up_to(shard, 64);
    problems.expect(reducer.finish_step(soon()).ok(), one, "finish_step failed");
    problems.expect(!reducer.exposed(), one, "a time is given");
    problems.expect(one.communicator.barrier(soon()).ok(), one, "barrier failed");
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("broadcast, all_gather and barrier of the host's bytes mix in any order and size") {
  const int world = GENERATE(2, 3);
  Problems problems;
  run_nccl_group(
      {.world_size = world, .shards = world, .arena_floats = 16}, problems, [&](NcclRank& one) {
        Communicator& communicator = one.communicator;
        for (const std::size_t bytes : {0UL, 1UL, 1000UL, (16UL << 20) / 3 + 77}) {
          for (int root = 0; root < world; ++root) {
            std::vector<std::byte> sent =
                communicator.rank() == root ? pattern(bytes, root) : std::vector<std::byte>(bytes);
            problems.expect(communicator.broadcast(sent, root, soon()).ok(), one,
                            "broadcast failed");
            problems.expect(sent == pattern(bytes, root), one, "broadcast brought other bytes");
          }
          problems.expect(communicator.barrier(soon()).ok(), one, "barrier failed");
          std::vector<std::byte> all(bytes * static_cast<std::size_t>(world));
          problems.expect(
              communicator.all_gather(pattern(bytes, communicator.rank()), all, soon()).ok(), one,
              "all_gather failed");
          for (int from = 0; from < world; ++from) {
            const auto begin = all.begin() + static_cast<std::ptrdiff_t>(bytes) * from;
            problems.expect(std::equal(begin, begin + static_cast<std::ptrdiff_t>(bytes),
                                       pattern(bytes, from).begin()),
                            one, "all_gather brought other bytes");
          }
        }
      });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("a call of NCCL that answers late is waited for") {
  const test::FakeFaults faults("0:slow 1:slow");
  Problems problems;
  run_nccl_group({.arena_floats = 64}, problems, [&](NcclRank& one) {
    one.write(std::vector<float>(64, 1.0F));
    problems.expect(one.communicator.finish(one.communicator.start(0, {0, 64}), soon()).ok(), one,
                    "finish failed");
    problems.expect(one.read() == std::vector<float>(64, 2.0F), one, "other sum");
  });
  CHECK(problems.all() == std::vector<std::string>{});
}

}  // namespace
}  // namespace ddprun::trainer
