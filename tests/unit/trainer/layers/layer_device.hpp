// The device on which the cases of this folder run: each program that has them defines it.
#pragma once

#include "trainer/compute/device.hpp"

namespace ddprun::trainer::test {

/// One for all cases of a program.
Device& device();

}  // namespace ddprun::trainer::test
