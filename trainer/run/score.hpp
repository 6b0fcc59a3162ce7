// What a run is judged by beside its loss: one number for each kind of target.
#pragma once

#include <string>

#include "trainer/compute/counters.hpp"
#include "trainer/model/layer.hpp"

namespace ddprun::trainer {

/// Of samples, or of pixels; 0 to 1.
struct Score {
  const char* text;  ///< what people call it
  const char* key;   ///< in JSON, behind the name of the set
  double (*of)(const Counters&);

  /// Which of several is the best one, in words, and the same as a comparison.
  static constexpr const char* best_is = "largest";
  static bool is_better(double one, double other) { return one > other; }

  /// In JSON: "test_accuracy".
  [[nodiscard]] std::string held_out_key() const { return std::string("test_") + key; }
};

inline Score score_of(Target target) {
  if (target == Target::mask) return {"IoU", "iou", intersection_over_union};
  return {"accuracy", "accuracy", accuracy};
}

}  // namespace ddprun::trainer
