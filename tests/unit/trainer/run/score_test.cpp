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

const std::vector<EpochSummary> kEpochs{epoch_with(0.5, 0.6), epoch_with(0.3, 0.7),
                                        epoch_with(0.4, 0.8)};

TEST_CASE("labels are judged by accuracy and masks by IoU, unless something else is asked for") {
  CHECK(score_of(Target::label).best_key() == "test_accuracy");
  CHECK(score_of(Target::mask).best_key() == "test_iou");
  CHECK(score_of(Target::mask, BestBy::f1).best_key() == "test_f1");
  CHECK(score_of(Target::label, BestBy::loss).best_key() == "test_loss");
}

TEST_CASE("the best loss is the smallest, the best score the largest") {
  CHECK(best_epoch(kEpochs, score_of(Target::label)) == 2U);
  const Score by_loss = score_of(Target::label, BestBy::loss);
  CHECK(best_epoch(kEpochs, by_loss) == 1U);
  CHECK(by_loss.best_text(kEpochs[1]) == "smallest held-out loss 0.3000");
  CHECK(by_loss.is_better(0.4, -1));
  CHECK_FALSE(by_loss.is_better(0.4, 0.4));
  CHECK_FALSE(score_of(Target::label).is_better(0.4, 0.4));
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
  CHECK(best_epoch(kEpochs, by_f1) == best_epoch(kEpochs, score_of(Target::mask)));
  CHECK(by_f1.best_text(epoch_with(0, 0.5)) == "largest held-out F1 66.67 %");
}

}  // namespace
}  // namespace ddprun::trainer
