// What a run is judged by beside its loss: one number for each kind of target.
#pragma once

#include "trainer/compute/counters.hpp"
#include "trainer/model/layer.hpp"

namespace ddprun::trainer {

/// Of samples, or of pixels; 0 to 1, larger is better.
struct Score {
  const char* text;  ///< what people call it
  const char* key;   ///< in JSON: "test_" and this
  double (*of)(const Counters&);
};

inline Score score_of(Target target) {
  if (target == Target::mask) return {"IoU", "iou", intersection_over_union};
  return {"accuracy", "accuracy", accuracy};
}

}  // namespace ddprun::trainer
