// A device: its memory, and all that touches floats there. The CPU is one (trainer/host). Several
// devices fit in one process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "trainer/compute/inputs.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/compute/operation.hpp"
#include "trainer/compute/optimizer_math.hpp"
#include "trainer/compute/step_state.hpp"
#include "trainer/error.hpp"
#include "trainer/model/layer.hpp"
#include "trainer/model/parameter.hpp"

namespace ddprun::trainer {

struct GradientArena {
  /// In the device's memory, in arena layout.
  std::span<float> floats;
  /// Gradients are added to what is there. Only devices that say so can (Device).
  bool accumulates = false;
};

/// `size`: of the model's arenas; `can_accumulate`: of the device.
inline void check_arena(const GradientArena& arena, std::size_t size, bool can_accumulate) {
  if (arena.floats.size() != size) throw std::logic_error("arena of another model");
  if (arena.accumulates && !can_accumulate)
    throw std::logic_error("this device adds no gradients to others");
}

/// Memory of a device; frees itself. It must not outlive the device.
class DeviceMemory {
 public:
  using Free = std::function<void(std::byte*)>;
  DeviceMemory() = default;
  DeviceMemory(std::byte* data, std::size_t bytes, Free free)
      : data_(data, std::move(free)), bytes_(bytes) {}

  /// An address of the device: the host must not follow it.
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  template <class T>
  [[nodiscard]] std::span<T> as() const {
    return {reinterpret_cast<T*>(data_.get()), bytes_ / sizeof(T)};
  }

 private:
  std::unique_ptr<std::byte, Free> data_{nullptr, [](std::byte*) {}};
  std::size_t bytes_ = 0;
};

/// Whole arenas of one model, which an optimizer works on.
struct UpdateArenas {
  float* parameters = nullptr;
  const float* gradients = nullptr;  ///< they still carry the loss scale
  float* first = nullptr;   ///< sgd: the momentum buffer, null if momentum is 0; adamw: exp_avg
  float* second = nullptr;  ///< adamw: exp_avg_sq
};

/// An optimizer's pass over the arenas of one model.
class ArenaUpdate {
 public:
  virtual ~ArenaUpdate() = default;
  /// One step of the arenas' elements [begin, end), unless state.found_inf is set. What lies
  /// between parameters is not touched. Statistics are mixed with what stands in the place of their
  /// gradients (MixStatistic). Each element's new value depends on that element alone: the bits do
  /// not depend on the partition. Different ranges may be updated by several threads.
  virtual void run(std::size_t begin, std::size_t end, const UpdateArenas& arenas,
                   const StepState& state) = 0;
  /// Before it, where OptimizerConfig clips: sets state.gradient_norm (gradient_norm.hpp).
  /// `gradients`: the whole arena.
  virtual void measure_norm(const float* gradients, StepState& state) = 0;
};

/// Work that a device has kept, with all addresses and sizes, so that one call asks for all of it
/// again: on a GPU a CUDA graph. It must not outlive the device.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  virtual void replay() = 0;
  /// What the device does for it: launches, copies, fills.
  [[nodiscard]] virtual std::size_t nodes() const = 0;
};

/// Calls may come from several threads at once, each with memory of its own. Work is done in the
/// order of one thread's calls. Pointers and spans are of the device's memory unless they are
/// called the host's.
class Device {
 public:
  virtual ~Device() = default;

  /// What the bits of a result depend on beside the run's own settings: library version, what
  /// becomes of the precision, and the instruction set that the arithmetic really uses, e.g.
  /// "oneDNN 2.6.3, bf16 stored avx512_core_bf16".
  [[nodiscard]] virtual std::string description(Precision precision) const = 0;
  [[nodiscard]] virtual Storage storage(Precision precision) const = 0;

  /// What this thread calls from now on is computed by exactly `threads` threads of a CPU, whatever
  /// OMP_NUM_THREADS says. Throws DataError where that is not possible.
  virtual void use_threads(int threads) = 0;

  // ---- memory ----

  /// Zeros, on a 64-byte boundary. Throws std::bad_alloc; of the host's memory OutOfMemory.
  virtual DeviceMemory allocate(std::size_t bytes) = 0;
  /// The most bytes that were allocated at one time so far: of arenas, activations and buffers, not
  /// what libraries take for themselves.
  [[nodiscard]] virtual std::size_t peak_bytes() const = 0;
  /// `host` is the host's, and may be written again at once. What is called afterwards finds the
  /// bytes there.
  virtual void copy_in(std::span<const std::byte> host, void* to) = 0;
  /// Waits until it is done.
  virtual void copy_out(const void* from, std::span<std::byte> host) = 0;
  /// Copies floats of the host to storage; `host` may be written again at once.
  virtual void copy_in(Storage storage, std::span<const float> host, void* to) = 0;
  /// From one place of the device's memory to another.
  virtual void copy(std::span<const std::byte> from, std::byte* to) = 0;
  /// Zeros.
  virtual void clear(std::span<std::byte> memory) = 0;
  /// A pass's inputs to their places, as copy_in() does it. A device that computes beside the host
  /// takes them there while it still computes the pass before.
  virtual void feed(const Inputs& inputs) { copy_inputs(*this, inputs); }
  /// Memory for samples that feed() gathers (StoredRows), and nothing else reads. Throws
  /// std::bad_alloc, and DeviceError where a device gathers nothing.
  virtual DeviceMemory allocate_samples(std::size_t /*bytes*/) {
    throw DeviceError("this device gathers no samples");
  }
  /// To such memory. `host` is the host's, and may be written again at once; feed() finds the bytes
  /// there. Work of the device goes on meanwhile.
  virtual void copy_samples_in(std::span<const std::byte> /*host*/, std::byte* /*to*/) {
    throw DeviceError("this device gathers no samples");
  }

  // ---- layers ----

  /// Whether operations can add gradients of parameters to what is there (Tensors::accumulates).
  [[nodiscard]] virtual bool accumulates_gradients() const { return false; }
  virtual std::unique_ptr<Operation> make_operation(const Layer& layer,
                                                    const OperationShape& shape) = 0;
  /// Floats to storage, both of the device: master weights to those that layers read.
  virtual void store(Storage storage, std::span<const float> from, void* to) = 0;

  // ---- arenas ----

  /// sum[i] += addend[i]
  virtual void add_into(std::span<float> sum, const float* addend) = 0;
  /// Sets state.found_inf if any value is an inf or a nan.
  virtual void find_non_finite(std::span<const float> values, StepState& state) = 0;
  /// `parameters`: by rising offset; they are copied. Gradients are sums over `shards`.
  virtual std::unique_ptr<ArenaUpdate> make_update(const OptimizerConfig& config,
                                                   std::span<const Parameter> parameters,
                                                   int shards) = 0;
  /// See finish_step() in step_state.hpp.
  virtual void finish_step(const ScalerConfig& config, StepState& state) = 0;
  /// See hash_floats().
  virtual std::uint64_t hash(std::span<const float> values) = 0;

  // ---- work that is repeated ----

  [[nodiscard]] virtual bool can_capture() const { return false; }
  /// Calls `work`: what it asks the device for is kept, not done. Throws DeviceError, and nothing
  /// is kept, where `work` allocates memory, copies from or to the host or waits, or where the
  /// device cannot keep some of it.
  virtual std::unique_ptr<CapturedWork> capture(const std::function<void()>& /*work*/) {
    throw DeviceError("this device captures nothing");
  }
};

/// Values as layers keep them, to floats of the host. Waits until it is done.
void copy_floats_out(Device& device, Storage storage, const void* from, std::span<float> host);

/// In bytes. Calls may come from several threads.
class MemoryCount {
 public:
  void add(std::size_t bytes) {
    const std::size_t now = now_.fetch_add(bytes) + bytes;
    std::size_t peak = peak_.load();
    while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  void remove(std::size_t bytes) { now_.fetch_sub(bytes); }
  [[nodiscard]] std::size_t peak() const { return peak_.load(); }

 private:
  std::atomic<std::size_t> now_ = 0;
  std::atomic<std::size_t> peak_ = 0;
};

/// Throws DataError where a shard of `batch` texts has more attention probabilities than a dropout
/// mask has numbers (DropoutMask).
void check_attention_mask(const layer::Attention& kind, int batch);

}  // namespace ddprun::trainer
