// The CPU as a device: its memory is the host's, and each call has done its work when it returns.
#pragma once

#include <memory>
#include <string>

#include "trainer/compute/device.hpp"
#include "trainer/compute/numeric.hpp"

namespace ddprun::trainer {

/// How a device keeps bf16.
enum class Bf16 {
  stored_if_possible,  ///< in two bytes where the CPU has instructions for it, else rounded
  rounded,             ///< as floats, as on any other CPU
};

/// fp16 is rounded there. Element-wise layers run on the calling thread alone.
std::unique_ptr<Device> make_host_device(Bf16 bf16 = Bf16::stored_if_possible);

/// Library version, how the precision is kept where that is not fp32, and the instruction set that
/// the arithmetic really uses, e.g. "oneDNN 2.6.3 avx512_core" or "oneDNN 2.6.3, bf16 rounded
/// avx512_core".
std::string compute_description(Storage storage = Storage::fp32);

/// Whether the library has instructions for bf16 here; ONEDNN_MAX_CPU_ISA may forbid them.
bool has_bf16_instructions();

}  // namespace ddprun::trainer
