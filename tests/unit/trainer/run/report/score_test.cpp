#include "trainer/run/report/score.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <limits>

namespace ddprun::trainer {
namespace {

EpochSummary epoch_with(double loss, double score) {
  EpochSummary epoch;
  epoch.test_loss = loss;
  epoch.test_score = score;
  return epoch;
}

const std::vector<Evaluation> kEvaluations{
    {epoch_with(0.5, 0.6), 8}, {epoch_with(0.3, 0.7), 16}, {epoch_with(0.4, 0.8), 24}};

std::optional<std::int64_t> best_step(const std::vector<Evaluation>& evaluations,
                                      const Score& score) {
  const auto best = best_of(evaluations, score);
  return best ? std::optional(best->step) : std::nullopt;
}

TEST_CASE("labels are judged by accuracy and masks by IoU, unless something else is asked for") {
  CHECK(score_of(Target::label).best_key() == "test_accuracy");
  CHECK(score_of(Target::mask).best_key() == "test_iou");
  CHECK(score_of(Target::mask, BestBy::f1).best_key() == "test_f1");
  CHECK(score_of(Target::label, BestBy::loss).best_key() == "test_loss");
}

TEST_CASE("the best loss is the smallest, the best score the largest") {
  CHECK(best_step(kEvaluations, score_of(Target::label)) == 24);
  CHECK(best_step({}, score_of(Target::label)) == std::nullopt);
  const Score by_loss = score_of(Target::label, BestBy::loss);
  CHECK(best_step(kEvaluations, by_loss) == 16);
  CHECK(by_loss.best_text(kEvaluations[1].epoch) == "smallest held-out loss 0.3000");
  CHECK(by_loss.is_better(0.4, -1));
  CHECK_FALSE(by_loss.is_better(0.4, 0.4));
  CHECK_FALSE(score_of(Target::label).is_better(0.4, 0.4));
}

TEST_CASE("an epoch that --max-steps cut off counts as any other, and the first of equal ones") {
  TrainingState state;
  state.epochs = {epoch_with(0.5, 0.6), epoch_with(0.3, 0.7)};
  state.epochs[1].epoch = 1;
  state.cut_off = {{.step = 11, .summary = epoch_with(0.4, 0.7)},
                   {.step = 5, .summary = epoch_with(0.2, 0.1)}};
  const auto all = evaluations_of(state, 8);
  std::vector<std::int64_t> steps;
  for (const Evaluation& one : all) steps.push_back(one.step);
  CHECK(steps == std::vector<std::int64_t>{5, 8, 11, 16});
  CHECK(all[2].is_cut_off);
  CHECK_FALSE(all[3].is_cut_off);
  CHECK(best_step(all, score_of(Target::label)) == 11);
  CHECK(best_step(all, score_of(Target::label, BestBy::loss)) == 5);
}

TEST_CASE("of held-out losses that are no numbers the first is named, and how many there are") {
  Counters counters{.not_finite = 1, .first_not_finite = 5};
  CHECK(held_out_not_finite(counters, " after step 3") ==
        "the held-out loss is not finite after step 3 (sample 5 of the held-out set)");
  counters.not_finite = 2;
  CHECK(held_out_not_finite(counters, "") ==
        "the held-out loss is not finite (sample 5 of the held-out set, the first of 2)");
}

TEST_CASE("F1 is that of the counts that the IoU is of, and has its order") {
  const Counters counters{
      .count = 1, .true_positives = 6, .false_positives = 1, .false_negatives = 3};
  CHECK(f1_of(intersection_over_union(counters)) == Approx(2.0 * 6 / (2 * 6 + 1 + 3)));
  CHECK(f1_of(0) == 0);
  CHECK(f1_of(1) == 1);
  const Score by_f1 = score_of(Target::mask, BestBy::f1);
  CHECK(best_of(kEvaluations, by_f1) == best_of(kEvaluations, score_of(Target::mask)));
  CHECK(by_f1.best_text(epoch_with(0, 0.5)) == "largest held-out F1 66.67 %");
}

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
