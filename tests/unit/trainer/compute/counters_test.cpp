#include "trainer/compute/counters.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

namespace ddprun::trainer {
namespace {

TEST_CASE("counters do not depend on the order in which samples are added") {
  const std::vector<double> losses{0.1, 1e-7, 123.456, 2.0 / 3, 9.75};
  Counters forward;
  Counters backward;
  for (const double loss : losses) count_loss(forward, loss, 0);
  for (auto it = losses.rbegin(); it != losses.rend(); ++it) count_loss(backward, *it, 0);
  CHECK(forward == backward);
  Counters left;
  Counters right;
  count_loss(left, losses[0], 0);
  for (std::size_t i = 1; i < losses.size(); ++i) count_loss(right, losses[i], 0);
  right += left;
  CHECK(right == forward);
  CHECK(mean_loss(forward) == Approx(26.7945334).epsilon(1e-7));
}

TEST_CASE("a sample's loss is rounded to the nearest unit") {
  const auto units_of = [](double units) {
    Counters counters;
    count_loss(counters, units * kLossUnit, 0);
    return counters.loss;
  };
  CHECK(units_of(0.25) == 0);
  CHECK(units_of(0.5) == 1);
  CHECK(units_of(3.4) == 3);
  CHECK(units_of(-0.75) == -1);
  CHECK(units_of(16777216.0) == 16777216);
}

TEST_CASE("a loss of inf or nan makes the mean nan, not garbage") {
  Counters counters;
  count_loss(counters, 1.0, 6);
  counters.correct = 1;
  CHECK(mean_loss(counters) == 1);
  count_loss(counters, std::numeric_limits<double>::infinity(), 9);
  count_loss(counters, std::numeric_limits<double>::quiet_NaN(), 8);
  CHECK(counters.not_finite == 2);
  CHECK(counters.count == 3);
  CHECK(counters.first_not_finite == 8);
  Counters sum;
  sum += counters;
  CHECK(sum == counters);
  CHECK(std::isnan(mean_loss(counters)));
  CHECK(accuracy(counters) == Approx(1.0 / 3));
  CHECK(mean_loss(Counters{}) == 0);
  CHECK(accuracy(Counters{}) == 0);
}

TEST_CASE("the overlap of a mask and its prediction is a share of the pixels of either") {
  Counters counters{.count = 2, .true_positives = 6, .false_positives = 1, .false_negatives = 5};
  CHECK(intersection_over_union(counters) == 0.5);
  counters += Counters{.count = 1, .true_positives = 3, .false_positives = 2, .false_negatives = 1};
  CHECK(counters ==
        Counters{.count = 3, .true_positives = 9, .false_positives = 3, .false_negatives = 6});
  CHECK(intersection_over_union(counters) == 0.5);
  CHECK(intersection_over_union({.count = 1}) == 0);  // nothing to find, and nothing found
  CHECK(intersection_over_union({.count = 1, .false_positives = 1}) == 0);
  CHECK(intersection_over_union({}) == 0);
}

TEST_CASE("a sample's place in the run is a number that rises, and back") {
  constexpr int kShards = 3;
  constexpr int kBatch = 5;
  std::int64_t next = 0;
  for (std::int64_t step = 0; step < 4; ++step) {
    for (int shard = 0; shard < kShards; ++shard) {
      for (int item = 0; item < kBatch; ++item) {
        REQUIRE(SamplePlace{step, shard, item}.number(kShards, kBatch) == next);
        const SamplePlace back = SamplePlace::of(next++, kShards, kBatch);
        REQUIRE(back.step == step);
        REQUIRE(back.shard == shard);
        REQUIRE(back.item == item);
      }
    }
  }
}

TEST_CASE("huge losses count as the largest, and do not overflow") {
  Counters counters;
  for (int i = 0; i < 1000; ++i) count_loss(counters, 3e300, i);
  CHECK(counters.not_finite == 0);
  CHECK(mean_loss(counters) == kSampleLossMax);
}

}  // namespace
}  // namespace ddprun::trainer
