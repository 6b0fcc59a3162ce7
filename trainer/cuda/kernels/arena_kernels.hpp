// What works on whole arenas: sums, the search for infs, the optimizer's pass, conversions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/counters.hpp"
#include "trainer/compute/gradient_norm.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/compute/ops.hpp"
#include "trainer/compute/optimizer_math.hpp"
#include "trainer/compute/step_state.hpp"
#include "trainer/cuda/kernel.hpp"
#include "trainer/cuda/kernels/packs.hpp"

namespace ddprun::trainer::cuda {

struct AddInto {
  static constexpr std::size_t kValues = kPackValues<float>;
  float* sum;
  const float* addend;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    map_values(at, count, sum, Add{}, sum, addend);
  }
};

/// Floats to values as layers keep them.
template <class T>
struct StoreFloats {
  static constexpr std::size_t kValues = kPackValues<T>;
  const float* from;
  T* to;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    map_values(at, count, to, CastShadow{}, from);
  }
};

/// And back: to[i] = from[i], or added to what is there.
template <class T>
struct WidenValues {
  static constexpr std::size_t kValues = kPackValues<T>;
  const T* from;
  float* to;
  bool adds;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (adds) {
      map_values(
          at, count, to, [](float& sum, float old, T value) { sum = old + load(value); }, to, from);
    } else {
      map_values(
          at, count, to, [](float& wide, T value) { wide = load(value); }, from);
    }
  }
};

struct FindNonFinite {
  static constexpr std::size_t kValues = kPackValues<float>;
  const float* values;
  StepState* state;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (count % kValues == 0 && lie_as_packs<kValues>(values)) {
      find<kValues>(at);
    } else {
      find<1>(at);
    }
  }

 private:
  template <std::size_t kCount>
  DDPRUN_HOST_DEVICE void find(const ThreadPlace& at) const {
    bool found = false;
    each_pack<kCount>(at, count, [&](std::size_t i) {
      const auto pack = read_pack<kCount>(values + i);
      for (std::size_t k = 0; k < kCount; ++k) found = found || is_non_finite(pack.values[k]);
    });
    if (found) state->found_inf = 1;  // all that write write the same
  }
};

/// Sums the squares of each lane of each block, for measure_norm().
struct SumSquares {
  const float* gradients;
  const NormBlock* blocks;
  double* sums;
  std::size_t count;  ///< of sums
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const NormBlock& block = blocks[i / kNormLanes];
      sums[i] = sum_squares(gradients + block.begin, block.count, i % kNormLanes);
    }
  }
};

struct SumRuns {
  const double* from;
  double* to;
  std::size_t count;  ///< of those in `from`
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t run = at.element(); run < norm_runs(count); run += at.stride())
      to[run] = sum_run(from, count, run);
  }
};

/// By one thread.
struct SetGradientNorm {
  const double* squares;
  StepState* state;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (at.element() == 0) set_gradient_norm(*squares, *state);
  }
};

/// A piece of one parameter that one block updates.
struct UpdatePiece {
  std::uint64_t begin = 0;  ///< in the arenas
  std::uint32_t count = 0;
  bool is_statistic = false;
  double decay = 0;
};

/// One optimizer step, block after block over the pieces.
struct UpdateArena {
  OptimizerConfig config;
  const StepState* state;
  const UpdatePiece* pieces;
  std::size_t piece_count;
  float* parameters;
  const float* gradients;
  float* first;
  float* second;
  float statistic_share;  ///< 1 / V

  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (state->found_inf != 0) return;
    const UpdateScalars scalars = update_scalars(config, *state);
    for (std::size_t k = at.block; k < piece_count; k += at.blocks) update(pieces[k], scalars, at);
  }

 private:
  DDPRUN_HOST_DEVICE void update(const UpdatePiece& piece, const UpdateScalars& scalars,
                                 const ThreadPlace& at) const {
    const auto each = [&](const auto& change) {
      for (std::size_t i = at.thread; i < piece.count; i += kBlockThreads) change(piece.begin + i);
    };
    if (piece.is_statistic) {
      const MixStatistic mix{statistic_share};
      each([&](std::size_t i) { mix(parameters[i], gradients[i]); });
    } else if (config.kind == OptimizerKind::adamw) {
      const AdamWUpdate adamw{scalars, keep_factor(scalars.learning_rate, piece.decay)};
      each([&](std::size_t i) { adamw(parameters[i], gradients[i], first[i], second[i]); });
    } else if (first == nullptr) {
      const SgdUpdate<false, false> sgd{scalars, static_cast<float>(piece.decay)};
      float unused = 0;
      each([&](std::size_t i) { sgd(parameters[i], gradients[i], unused); });
    } else if (config.nesterov) {
      const SgdUpdate<true, true> sgd{scalars, static_cast<float>(piece.decay)};
      each([&](std::size_t i) { sgd(parameters[i], gradients[i], first[i]); });
    } else {
      const SgdUpdate<true, false> sgd{scalars, static_cast<float>(piece.decay)};
      each([&](std::size_t i) { sgd(parameters[i], gradients[i], first[i]); });
    }
  }
};

/// By one thread.
struct FinishStep {
  ScalerConfig config;
  StepState* state;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (at.element() == 0) finish_step(config, *state);
  }
};

/// An input of SumInTree: all of them from `offset` on, if it is one of the gradient arenas.
struct TreeInput {
  const float* floats;
  bool is_arena;
};
/// sum = left + right. Below 0: ~place of an input; else a place of the thread's own.
struct TreeAddition {
  int left, right, sum;
};

/// out[i] = the sum of element i of all inputs, in the order of the additions; the last one makes
/// the result. `out` may be an input.
struct SumInTree {
  static constexpr int kPlacesMax = 24;
  const TreeInput* inputs;
  const TreeAddition* additions;
  int addition_count;
  std::size_t offset;
  float* out;
  std::size_t count;

  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    float places[kPlacesMax];
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      float sum = 0;
      for (int k = 0; k < addition_count; ++k) {
        const TreeAddition& addition = additions[k];
        sum = value(addition.left, i, places) + value(addition.right, i, places);
        places[addition.sum] = sum;
      }
      out[i] = sum;
    }
  }

 private:
  DDPRUN_HOST_DEVICE float value(int from, std::size_t i, const float* places) const {
    if (from >= 0) return places[from];
    const TreeInput& input = inputs[~from];
    return input.floats[input.is_arena ? offset + i : i];
  }
};

using ArenaKernels = KernelList<AddInto, StoreFloats<Half>, StoreFloats<BFloat16>,
                                WidenValues<Half>, WidenValues<BFloat16>, FindNonFinite, SumSquares,
                                SumRuns, SetGradientNorm, UpdateArena, FinishStep, SumInTree>;

}  // namespace ddprun::trainer::cuda
