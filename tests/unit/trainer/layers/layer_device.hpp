// The device on which the cases of this folder run: each program that has them defines it.
#pragma once

#include "trainer/compute/device.hpp"

namespace ddprun::trainer::test {

/// One for all cases of a program.
Device& device();
/// A device on which products and convolutions of floats are computed in tf32, for all cases of a
/// program on a GPU, emulated or not.
Device& tf32_device();

/// What the device's libraries do otherwise than loops of our own.
struct Libraries {
  /// The order in which a product is summed up depends on its shape: cuBLASLt chooses an algorithm
  /// for each.
  bool choose_by_shape = false;
  /// Weight gradients of convolutions are rounded to the activations' type before they are floats:
  /// cuDNN's older calls have no other with activations in two bytes.
  bool round_weight_gradients = false;
};
Libraries libraries();

}  // namespace ddprun::trainer::test
