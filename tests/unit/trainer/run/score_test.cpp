#include "trainer/run/score.hpp"

#include <catch2/catch.hpp>

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

}  // namespace
}  // namespace ddprun::trainer
