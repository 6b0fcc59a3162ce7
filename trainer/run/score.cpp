#include "trainer/run/score.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun::trainer {

Score score_of(Target target, std::optional<BestBy> best_by) {
  if (target == Target::mask)
    return {"IoU", "iou", intersection_over_union, best_by.value_or(BestBy::iou), target};
  return {"accuracy", "accuracy", accuracy, best_by.value_or(BestBy::accuracy), target};
}

std::string held_out_not_finite(const Counters& counters, std::string_view when) {
  const std::string more =
      counters.not_finite > 1 ? fmt::format(", the first of {}", counters.not_finite) : "";
  return fmt::format("the held-out loss is not finite{} (sample {} of the held-out set{})", when,
                     counters.first_not_finite, more);
}

double f1_of(double iou) { return 2 * iou / (1 + iou); }

std::string Score::best_key() const {
  if (best_by == BestBy::loss) return "test_loss";
  return best_by == BestBy::f1 ? "test_f1" : held_out_key();
}

const char* Score::best_is() const { return best_by == BestBy::loss ? "smallest" : "largest"; }

double Score::best_value(const EpochSummary& epoch) const {
  if (best_by == BestBy::loss) return epoch.test_loss;
  return best_by == BestBy::f1 ? f1_of(epoch.test_score) : epoch.test_score;
}

bool Score::is_better(double one, double other) const {
  if (other < 0) return true;
  return best_by == BestBy::loss ? one < other : one > other;
}

std::string Score::best_text(const EpochSummary& epoch) const {
  const double value = best_value(epoch);
  if (best_by == BestBy::loss) return fmt::format("smallest held-out loss {:.4f}", value);
  return fmt::format("{} held-out {} {:.2f} %", best_is(), best_by == BestBy::f1 ? "F1" : text,
                     100 * value);
}

std::vector<Evaluation> evaluations_of(const TrainingState& state, std::int64_t steps_per_epoch) {
  std::vector<Evaluation> all;
  for (const EpochSummary& epoch : state.epochs)
    all.push_back({.epoch = epoch, .step = (epoch.epoch + 1) * steps_per_epoch});
  for (const CutOffEpoch& epoch : state.cut_off)
    all.push_back({.epoch = epoch.summary, .step = epoch.step, .is_cut_off = true});
  std::sort(all.begin(), all.end(),
            [](const Evaluation& a, const Evaluation& b) { return a.step < b.step; });
  return all;
}

std::optional<Evaluation> best_of(const std::vector<Evaluation>& evaluations, const Score& score) {
  std::optional<Evaluation> best;
  for (const Evaluation& one : evaluations) {
    if (!best || score.is_better(score.best_value(one.epoch), score.best_value(best->epoch)))
      best = one;
  }
  return best;
}

}  // namespace ddprun::trainer
