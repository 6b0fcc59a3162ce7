#include "trainer/run/report/score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

namespace {

double share(std::int64_t part, std::int64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

}  // namespace

double precision_of(const ClassCount& count) { return share(count.correct, count.predicted); }
double recall_of(const ClassCount& count) { return share(count.correct, count.wanted); }
double f1_of(const ClassCount& count) {
  return share(2 * count.correct, count.wanted + count.predicted);
}
double iou_of(const ClassCount& count) {
  return share(count.correct, count.wanted + count.predicted - count.correct);
}

void count_classes(std::span<const std::int32_t> labels, std::span<const float> logits,
                   std::span<ClassCount> counts) {
  const std::size_t classes = counts.size();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span<const float> row = logits.subspan(i * classes, classes);
    const auto label = static_cast<std::size_t>(labels[i]);
    ++counts[label].wanted;
    if (std::any_of(row.begin(), row.end(), [](float value) { return std::isnan(value); }))
      continue;
    const auto best =
        static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    ++counts[best].predicted;
    if (best == label) ++counts[best].correct;
  }
}

std::vector<ClassCount> mask_counts(const Counters& counters, std::int64_t pixels) {
  const ClassCount inside{.wanted = counters.true_positives + counters.false_negatives,
                          .predicted = counters.true_positives + counters.false_positives,
                          .correct = counters.true_positives};
  const std::int64_t all = counters.count * pixels;
  return {{.wanted = all - inside.wanted,
           .predicted = all - inside.predicted,
           .correct =
               all - counters.true_positives - counters.false_positives - counters.false_negatives},
          inside};
}

}  // namespace ddprun::trainer
