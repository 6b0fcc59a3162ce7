#include "trainer/run/class_counts.hpp"

#include <algorithm>
#include <cmath>

namespace ddprun::trainer {
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
