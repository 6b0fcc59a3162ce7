#include "trainer/run/class_counts.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <limits>

namespace ddprun::trainer {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST_CASE("of equal logits the first class is predicted, and none of a nan") {
  const std::array<std::int32_t, 5> labels{0, 1, 2, 2, 1};
  const std::array<float, 15> logits{3,    1, 2,  //
                                     2,    2, 1,  // 0, though 1 is as large
                                     0,    0, 5,  //
                                     9,    0, 5,  //
                                     kNan, 8, 1};
  std::array<ClassCount, 3> counts{};
  count_classes(labels, logits, counts);
  CHECK(counts[0] == ClassCount{.wanted = 1, .predicted = 3, .correct = 1});
  CHECK(counts[1] == ClassCount{.wanted = 2, .predicted = 0, .correct = 0});
  CHECK(counts[2] == ClassCount{.wanted = 2, .predicted = 1, .correct = 1});
  count_classes(std::span(labels).first(1), std::span(logits).first(3), counts);
  CHECK(counts[0].correct == 2);
}

TEST_CASE("precision, recall, F1 and IoU are shares of the counts, 0 where there is nothing") {
  const ClassCount count{.wanted = 8, .predicted = 4, .correct = 3};
  CHECK(precision_of(count) == 0.75);
  CHECK(recall_of(count) == 0.375);
  CHECK(f1_of(count) == 0.5);
  CHECK(iou_of(count) == Approx(1.0 / 3));
  const double precision = precision_of(count);
  const double recall = recall_of(count);
  CHECK(f1_of(count) == Approx(2 * precision * recall / (precision + recall)));
  for (const auto of : {precision_of, recall_of, iou_of}) CHECK(of({}) == 0);
  CHECK(f1_of(ClassCount{}) == 0);
}

TEST_CASE("of masks there are the pixels outside and those inside") {
  Counters counters;
  counters.count = 2;
  counters.true_positives = 5;
  counters.false_positives = 3;
  counters.false_negatives = 4;
  const std::vector<ClassCount> counts = mask_counts(counters, 50);
  REQUIRE(counts.size() == 2);
  CHECK(counts[0] == ClassCount{.wanted = 91, .predicted = 92, .correct = 88});
  CHECK(counts[1] == ClassCount{.wanted = 9, .predicted = 8, .correct = 5});
  CHECK(iou_of(counts[1]) == intersection_over_union(counters));
}

}  // namespace
}  // namespace ddprun::trainer
