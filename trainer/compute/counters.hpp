// What a run counts of the samples that it computes, where it computes them.
#pragma once

#include <cstdint>
#include <limits>

#include "trainer/compute/host_device.hpp"

namespace ddprun::trainer {

/// Integers, so that they add up to the same bits in any order: over samples, shards, ranks and
/// restarts. Trivially copyable: a device holds some in its memory.
struct Counters {
  std::int64_t loss = 0;     ///< sum over the samples, each rounded to units of 2^-24
  std::int64_t count = 0;    ///< samples
  std::int64_t correct = 0;  ///< samples of which the largest logit is the label's
  // Pixels, where the target is a mask.
  std::int64_t true_positives = 0;   ///< predicted, and in the mask
  std::int64_t false_positives = 0;  ///< predicted, but not in the mask
  std::int64_t false_negatives = 0;  ///< in the mask, but not predicted
  std::int64_t not_finite = 0;  ///< samples with a loss of inf or nan; they add nothing to `loss`
  /// The first of these in the order of training, as SamplePlace::number() has it.
  std::int64_t first_not_finite = std::numeric_limits<std::int64_t>::max();

  friend bool operator==(const Counters& a, const Counters& b) {
    return a.loss == b.loss && a.count == b.count && a.correct == b.correct &&
           a.true_positives == b.true_positives && a.false_positives == b.false_positives &&
           a.false_negatives == b.false_negatives && a.not_finite == b.not_finite &&
           a.first_not_finite == b.first_not_finite;
  }
};

/// Where in a run a sample was computed.
struct SamplePlace {
  std::int64_t step = 0;
  int shard = 0;
  int item = 0;  ///< in the shard

  /// Rises from step to step, from shard to shard, from item to item.
  [[nodiscard]] DDPRUN_HOST_DEVICE std::int64_t number(int shards, int batch) const {
    return (step * shards + shard) * batch + item;
  }
  static SamplePlace of(std::int64_t number, int shards, int batch) {
    const std::int64_t shard = number / batch;
    return {shard / shards, static_cast<int>(shard % shards), static_cast<int>(number % batch)};
  }
};

inline constexpr double kLossUnit = 1.0 / 16777216;  // 2^-24
/// A sample's loss counts as at most this, so that no sum of fewer than 2^19 samples overflows.
inline constexpr double kSampleLossMax = 1048576;  // 2^20

DDPRUN_HOST_DEVICE inline void operator+=(Counters& sum, const Counters& more) {
  sum.loss += more.loss;
  sum.count += more.count;
  sum.correct += more.correct;
  sum.true_positives += more.true_positives;
  sum.false_positives += more.false_positives;
  sum.false_negatives += more.false_negatives;
  sum.not_finite += more.not_finite;
  if (more.first_not_finite < sum.first_not_finite) sum.first_not_finite = more.first_not_finite;
}

/// `loss`: of one sample; in double, for it may be a mean over many values. `place`:
/// SamplePlace::number() of the sample.
DDPRUN_HOST_DEVICE inline void count_loss(Counters& counters, double loss, std::int64_t place) {
  ++counters.count;
  if (loss - loss != 0.0) {  // inf or nan
    ++counters.not_finite;
    if (place < counters.first_not_finite) counters.first_not_finite = place;
    return;
  }
  const double units = (loss > kSampleLossMax ? kSampleLossMax : loss) / kLossUnit;
  counters.loss += static_cast<std::int64_t>(units < 0 ? units - 0.5 : units + 0.5);
}

/// Over the samples; nan if one was not finite, 0 of none.
double mean_loss(const Counters& counters);
/// 0 to 1; 0 of no samples.
double accuracy(const Counters& counters);
/// The share of the pixels in prediction or mask that are in both: 0 to 1; 0 where there were none,
/// so that samples without any mask are no success.
double intersection_over_union(const Counters& counters);

}  // namespace ddprun::trainer
