// What a device does for one layer: the interface between the executor and the devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/compute/counters.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/compute/step_state.hpp"
#include "trainer/model/layer.hpp"

namespace ddprun::trainer {

/// What backward does with the gradient of one input.
enum class GradientUse {
  none,        ///< nobody needs it
  overwrite,   ///< this layer is the first to give one
  accumulate,  ///< other readers of the same input gave theirs before
};

/// One layer for a fixed number of samples.
struct OperationShape {
  struct Input {
    ActivationShape shape;
    GradientUse gradient = GradientUse::none;
  };
  int batch = 1;
  std::vector<Input> inputs;
  ActivationShape output;
  std::vector<std::size_t> parameter_counts;  ///< in elements
  Storage storage = Storage::fp32;
  bool trains = true;  ///< false: backward never runs
};

/// Where the samples of a pass belong, and what they are held to. Pointers are to the device's
/// memory.
struct Pass {
  int count = 0;  ///< the first samples; what is behind them in the batch is padding
  const std::int32_t* labels = nullptr;  ///< of the target label
  const float* masks = nullptr;          ///< of the target mask: count x pixels
  // Texts of the whole batch, where what is behind the count has length 0.
  const std::int32_t* tokens = nullptr;   ///< batch x width
  const std::int32_t* lengths = nullptr;  ///< of each sample
  Counters* counters = nullptr;           ///< the loss adds to them
  /// The number of the shard, or of the batch in its set; null: 0. Read where the device computes,
  /// never by the host: so a device can repeat what it did for another shard.
  const std::int32_t* shard = nullptr;

  // Training only. The state's loss scale and step are read where the device computes, too.
  const StepState* state = nullptr;
  std::uint64_t seed = 0;
  int shards = 1;
  int batch = 1;  ///< the most samples that a shard of the run has
};

/// SamplePlace::number() of the first sample. Where the device computes.
DDPRUN_HOST_DEVICE inline std::int64_t first_place(const Pass& pass) {
  const SamplePlace first{
      pass.state == nullptr ? 0 : static_cast<std::int64_t>(steps_done(*pass.state)),
      shard_number(pass.shard), 0};
  return first.number(pass.shards, pass.batch);
}

/// Where one layer's tensors are in one pass. Activations, their gradients and parameters have the
/// storage type of the shape; gradients of parameters are floats in arena layout.
struct Tensors {
  std::span<const void* const> inputs;
  std::span<const void* const> parameters;
  void* output = nullptr;
  void* saved = nullptr;      ///< lives from forward to backward
  void* workspace = nullptr;  ///< lives within one call

  // Backward only.
  const void* output_gradient = nullptr;
  std::span<void* const> input_gradients;  ///< null where the use is none
  std::span<float* const> parameter_gradients;
  bool accumulates = false;  ///< these are added to what is there; else they overwrite it
};

/// Bytes that an operation wants beside its tensors; both on 64-byte boundaries.
struct OperationMemory {
  std::size_t saved = 0;
  std::size_t workspace = 0;
};

/// Implementations hold primitives, never values: all memory is the executor's.
class Operation {
 public:
  virtual ~Operation() = default;
  [[nodiscard]] virtual OperationMemory memory() const { return {}; }
  virtual void forward(const Tensors& tensors, const Pass& pass) = 0;
  /// Follows the forward of the same pass; what the kind reads is still as it was. Gives the
  /// gradients of all inputs and parameters at once.
  virtual void backward(const Tensors& tensors, const Pass& pass) = 0;
};

}  // namespace ddprun::trainer
