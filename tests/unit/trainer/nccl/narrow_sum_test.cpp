// Sums of gradients in two bytes each: what is rounded, and what stays as it is.
#include "trainer/nccl/narrow_sum.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "tests/unit/trainer/comm/tree_reference.hpp"
#include "tests/unit/trainer/nccl/nccl_ranks.hpp"
#include "trainer/compute/numeric.hpp"

namespace ddprun::trainer {
namespace {

using test::NcclRank;
using test::Problems;
using test::run_nccl_group;
using test::soon;
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

Pairs pairs(const std::vector<Range>& ranges) {
  Pairs all;
  for (const Range& one : ranges) all.emplace_back(one.begin, one.end);
  return all;
}

TEST_CASE("a range is cut into what is kept and the rest") {
  const std::vector<Range> kept{{10, 20}, {20, 25}, {40, 50}};
  CHECK(pairs(nccl::within({15, 45}, kept)) == Pairs{{15, 20}, {20, 25}, {40, 45}});
  CHECK(pairs(nccl::without({15, 45}, kept)) == Pairs{{25, 40}});
  CHECK(pairs(nccl::without({0, 60}, kept)) == Pairs{{0, 10}, {25, 40}, {50, 60}});
  CHECK(pairs(nccl::within({25, 40}, kept)).empty());
  CHECK(pairs(nccl::without({42, 48}, kept)).empty());
  CHECK(pairs(nccl::without({3, 7}, {})) == Pairs{{3, 7}});
}

float rounded(Precision precision, float value) {
  return precision == Precision::fp16 ? round_to_half(value) : round_to_bfloat16(value);
}

TEST_CASE("gradients are rounded to the narrow type and added in it, statistics are not") {
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16);
  constexpr std::size_t kFloats = 1000;
  const std::vector<Range> statistics{{90, 110}, {500, 517}};
  std::vector<std::vector<float>> values;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    values.push_back(test::rough_floats(kFloats, rank));
  for (std::vector<float>& one : values)
    for (float& value : one) value = std::fmod(value, 100.0F);
  std::vector<float> expected = values[0];
  for (std::size_t i = 0; i < kFloats; ++i) {
    const bool is_kept = (i >= 90 && i < 110) || (i >= 500 && i < 517);
    const auto to = [&](float value) { return is_kept ? value : rounded(precision, value); };
    expected[i] = to(values[0][i]);
    for (int rank = 1; rank < 3; ++rank)
      expected[i] = to(expected[i] + to(values[static_cast<std::size_t>(rank)][i]));
  }
  Problems problems;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    run_nccl_group({.world_size = 3,
                    .shards = 3,
                    .arena_floats = kFloats,
                    .order = SumOrder::chain,
                    .grad_comm = precision,
                    .statistics = statistics,
                    .seed = seed},
                   problems, [&](NcclRank& one) {
                     one.write(values[static_cast<std::size_t>(one.communicator.rank())]);
                     static_cast<void>(one.communicator.start(0, {0, 96}));
                     static_cast<void>(one.communicator.start(1, {96, 512}));
                     const Ticket last = one.communicator.start(2, {512, kFloats});
                     problems.expect(one.communicator.finish(last, soon()).ok(), one,
                                     "finish failed");
                     problems.expect(test::same_bits(one.read(), expected), one, "other bits");
                   });
  }
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("beyond fp16's range a sum is an inf on every rank") {
  Problems problems;
  run_nccl_group({.arena_floats = 64, .order = SumOrder::chain, .grad_comm = Precision::fp16},
                 problems, [&](NcclRank& one) {
                   std::vector<float> values(64, 1.0F);
                   values[3] = 60000;                                     // together too large
                   if (one.communicator.rank() == 1) values[5] = -1e30F;  // by itself
                   one.write(values);
                   const Ticket last = one.communicator.start(0, {0, 64});
                   problems.expect(one.communicator.finish(last, soon()).ok(), one,
                                   "finish failed");
                   const std::vector<float> sums = one.read();
                   problems.expect(sums[3] == INFINITY && sums[5] == -INFINITY && sums[4] == 2, one,
                                   "no infs");
                 });
  CHECK(problems.all() == std::vector<std::string>{});
}

TEST_CASE("a bucket that is larger than the buffer is summed in parts") {
  constexpr std::size_t kFloats = (std::size_t{8} << 20) + 1000;
  Problems problems;
  run_nccl_group({.arena_floats = kFloats,
                  .order = SumOrder::chain,
                  .grad_comm = Precision::bf16,
                  .statistics = {{kFloats - 1010, kFloats - 990}}},
                 problems, [&](NcclRank& one) {
                   std::vector<float> values(kFloats, 2.0F);
                   values[kFloats - 1005] = 1.001F;  // rounded it would be 1
                   values[kFloats - 995] = 1.001F;
                   one.write(values);
                   const Ticket last = one.communicator.start(0, {0, kFloats});
                   problems.expect(one.communicator.finish(last, soon()).ok(), one,
                                   "finish failed");
                   for (float& value : values) value *= 2;
                   problems.expect(one.read() == values, one, "other sums");
                 });
  CHECK(problems.all() == std::vector<std::string>{});
}

}  // namespace
}  // namespace ddprun::trainer
