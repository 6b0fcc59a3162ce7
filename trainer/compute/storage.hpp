// How values are kept between layers.
#pragma once

#include <cstddef>

namespace ddprun::trainer {

/// What a run asks for: the storage type of activations, of their gradients and of the parameters
/// that the layers read. Arithmetic, master weights and gradient arenas are always fp32. With tf32
/// all is stored as fp32, and a GPU may round the factors of matrix products and convolutions to 10
/// bits behind the first one; CPUs do not have it.
enum class Precision { fp32, tf32, bf16, fp16 };

/// What a device makes of it. The rounded ones are floats that hold only values of the other type:
/// overflow and precision are those of real storage, but they are no faster than fp32. Their
/// results may differ from real ones in the last bit of the type: sums are rounded elsewhere.
enum class Storage { fp32, bf16, fp16, rounded_to_bf16, rounded_to_fp16 };

/// Bytes of one value.
constexpr std::size_t bytes_of(Storage storage) {
  return storage == Storage::bf16 || storage == Storage::fp16 ? 2 : 4;
}

}  // namespace ddprun::trainer
