#include "trainer/compute/counters.hpp"

#include <limits>

namespace ddprun::trainer {

double mean_loss(const Counters& counters) {
  if (counters.not_finite > 0) return std::numeric_limits<double>::quiet_NaN();
  if (counters.count == 0) return 0;
  return static_cast<double>(counters.loss) * kLossUnit / static_cast<double>(counters.count);
}

double accuracy(const Counters& counters) {
  if (counters.count == 0) return 0;
  return static_cast<double>(counters.correct) / static_cast<double>(counters.count);
}

double intersection_over_union(const Counters& counters) {
  if (counters.count == 0) return 0;
  const std::int64_t either =
      counters.true_positives + counters.false_positives + counters.false_negatives;
  if (either == 0) return 0;
  return static_cast<double>(counters.true_positives) / static_cast<double>(either);
}

}  // namespace ddprun::trainer
