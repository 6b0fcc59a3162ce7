// What an evaluation counts of each class, and what follows from it. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/compute/counters.hpp"

namespace ddprun::trainer {

/// Samples, or pixels of masks. Integers, so that they add up alike in any order.
struct ClassCount {
  std::int64_t wanted = 0;     ///< that are of the class
  std::int64_t predicted = 0;  ///< for which the class was predicted
  std::int64_t correct = 0;    ///< both
  friend bool operator==(const ClassCount&, const ClassCount&) = default;
};

/// Of the samples that were predicted, the share that is of the class; 0 where there are none.
double precision_of(const ClassCount& count);
/// Of the samples of the class, the share that was predicted; 0 where there are none.
double recall_of(const ClassCount& count);
/// The harmonic mean of the two; 0 where both are.
double f1_of(const ClassCount& count);
/// Of all that are of the class or were predicted, the share that is both; 0 where there are none.
double iou_of(const ClassCount& count);

/// Adds samples: `logits` has counts.size() in a row for each label. The class with the largest one
/// is predicted, of equal ones the first, as the accuracy has it; where one is nan, none is.
void count_classes(std::span<const std::int32_t> labels, std::span<const float> logits,
                   std::span<ClassCount> counts);

/// Of masks of `pixels` each: those outside and those inside.
std::vector<ClassCount> mask_counts(const Counters& counters, std::int64_t pixels);

}  // namespace ddprun::trainer
