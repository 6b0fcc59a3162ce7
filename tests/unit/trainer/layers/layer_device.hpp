// The device on which the cases of this folder run: each program that has them defines it.
#pragma once

#include "trainer/compute/device.hpp"

namespace ddprun::trainer::test {

/// One for all cases of a program.
Device& device();
/// The same where products and convolutions of floats are computed in tf32. Of programs on a GPU,
/// emulated or not.
Device& tf32_device();

}  // namespace ddprun::trainer::test
