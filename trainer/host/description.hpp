// Names what the bits of a result depend on beside the run's own settings.
#pragma once

#include <string>

namespace ddprun::trainer {

/// Library version and instruction set that the arithmetic really uses, e.g. "oneDNN 2.6.3
/// avx512_core".
std::string compute_description();

}  // namespace ddprun::trainer
