// Names what the bits of a result depend on beside the run's own settings.
#pragma once

#include <string>

#include "trainer/compute/storage.hpp"

namespace ddprun::trainer {

/// Library version, how the precision is kept where that is not fp32, and the instruction set that
/// the arithmetic really uses, e.g. "oneDNN 2.6.3 avx512_core" or "oneDNN 2.6.3, bf16 rounded
/// avx512_core".
std::string compute_description(Storage storage = Storage::fp32);

/// Whether the library has instructions for bf16 here; ONEDNN_MAX_CPU_ISA may forbid them.
bool has_bf16_instructions();

}  // namespace ddprun::trainer
