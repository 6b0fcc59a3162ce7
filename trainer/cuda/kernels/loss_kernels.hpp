// The losses: they add to the counters, and begin the backward pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/compute/counters.hpp"
#include "trainer/compute/ops.hpp"
#include "trainer/compute/step_state.hpp"
#include "trainer/cuda/kernel.hpp"

namespace ddprun::trainer::cuda {

/// Where the samples of a pass belong: first_place() of operation.hpp, for kernels.
struct FirstPlace {
  const StepState* state;  ///< null in evaluation
  const std::int32_t* shard;
  int shards;
  int batch;
  [[nodiscard]] DDPRUN_HOST_DEVICE std::int64_t number() const {
    const SamplePlace first{state == nullptr ? 0 : static_cast<std::int64_t>(steps_done(*state)),
                            shard_number(shard), 0};
    return first.number(shards, batch);
  }
};

/// Adds what each thread counts, in one block, to the counters. Integers: any order will do.
struct CountersTree {
  static constexpr int kPhases = kTreePhases + 2;
  struct Shared {
    BlockTree<Counters> tree;
  };
  Counters* counters;
  DDPRUN_HOST_DEVICE void add(const ThreadPlace& at, int phase, Shared& shared) const {
    if (phase <= kTreePhases) {
      shared.tree.add(at.thread, phase);
    } else if (at.thread == 0) {
      *counters += shared.tree.places[0];
    }
  }
};

/// One block; a thread a row.
template <class T>
struct SoftmaxLoss {
  static constexpr int kPhases = CountersTree::kPhases;
  using Shared = CountersTree::Shared;
  const T* logits;  ///< rows x classes
  const std::int32_t* labels;
  int classes;
  std::size_t rows;
  FirstPlace first;
  CountersTree tree;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at, int phase, Shared& shared) const {
    if (phase > 0) {
      tree.add(at, phase, shared);
      return;
    }
    Counters mine;
    for (std::size_t row = at.thread; row < rows; row += kBlockThreads) {
      T* const no_gradient = nullptr;
      const RowResult result = SoftmaxCrossEntropy{}(
          logits + row * static_cast<std::size_t>(classes), classes, labels[row], 0, no_gradient);
      count_loss(mine, static_cast<double>(result.loss),
                 first.number() + static_cast<std::int64_t>(row));
      mine.correct += result.correct ? 1 : 0;
    }
    shared.tree.places[at.thread] = mine;
  }
};

/// A thread a row. The scale is read here: the host does not know it.
template <class T>
struct SoftmaxLossGradient {
  const T* logits;
  const std::int32_t* labels;
  int classes;
  std::size_t rows;   ///< samples of the pass
  std::size_t batch;  ///< rows behind the samples get zeros
  const StepState* state;
  float divisor;  ///< samples x V
  T* gradient;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    const float factor = state->scaler.scale / divisor;
    for (std::size_t row = at.element(); row < batch; row += at.stride()) {
      T* const to = gradient + row * static_cast<std::size_t>(classes);
      if (row < rows) {
        SoftmaxCrossEntropy{}(logits + row * static_cast<std::size_t>(classes), classes,
                              labels[row], factor, to);
      } else {
        for (int c = 0; c < classes; ++c) store(to[c], 0.0F);
      }
    }
  }
};

/// A block a sample: the mean loss of its pixels, and the pixels that were right and wrong. Sums in
/// an order that the number of pixels alone decides.
template <class T>
struct MaskLoss {
  struct Sums {
    double loss;
    std::int64_t both, predicted, wanted;
    DDPRUN_HOST_DEVICE void operator+=(const Sums& more) {
      loss += more.loss;
      both += more.both;
      predicted += more.predicted;
      wanted += more.wanted;
    }
  };
  static constexpr int kPhases = kTreePhases + 2;
  struct Shared {
    BlockTree<Sums> tree;
  };
  BinaryCrossEntropy loss;
  const T* logits;
  const float* masks;
  std::size_t pixels;
  std::size_t samples;
  Sums* sums;  ///< of each sample
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at, int phase, Shared& shared) const {
    if (at.block >= samples) return;
    if (phase == 0) {
      Sums mine{0, 0, 0, 0};
      const std::size_t begin = at.block * pixels;
      for (std::size_t i = begin + at.thread; i < begin + pixels; i += kBlockThreads) {
        mine.loss += static_cast<double>(loss(logits[i], masks[i]));
        const bool predicts = predicts_mask(logits[i]);
        const bool wants = is_in_mask(masks[i]);
        mine.both += predicts && wants ? 1 : 0;
        mine.predicted += predicts ? 1 : 0;
        mine.wanted += wants ? 1 : 0;
      }
      shared.tree.places[at.thread] = mine;
    } else if (phase <= kTreePhases) {
      shared.tree.add(at.thread, phase);
    } else if (at.thread == 0) {
      sums[at.block] = shared.tree.places[0];
    }
  }
};

/// One block; a thread a sample.
template <class T>
struct CountMasks {
  static constexpr int kPhases = CountersTree::kPhases;
  using Shared = CountersTree::Shared;
  const typename MaskLoss<T>::Sums* sums;
  std::size_t samples;
  std::size_t pixels;
  FirstPlace first;
  CountersTree tree;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at, int phase, Shared& shared) const {
    if (phase > 0) {
      tree.add(at, phase, shared);
      return;
    }
    Counters mine;
    for (std::size_t k = at.thread; k < samples; k += kBlockThreads) {
      count_loss(mine, sums[k].loss / static_cast<double>(pixels),
                 first.number() + static_cast<std::int64_t>(k));
      mine.true_positives += sums[k].both;
      mine.false_positives += sums[k].predicted - sums[k].both;
      mine.false_negatives += sums[k].wanted - sums[k].both;
    }
    shared.tree.places[at.thread] = mine;
  }
};

template <class T>
struct MaskLossGradient {
  float positive_weight;
  const T* logits;
  const float* masks;
  std::size_t count;  ///< pixels of the samples of the pass
  std::size_t batch;  ///< pixels; those behind the samples get zeros
  const StepState* state;
  double values;  ///< pixels x V
  T* gradient;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    const auto factor = static_cast<float>(static_cast<double>(state->scaler.scale) / values);
    const BinaryCrossEntropyBackward backward{positive_weight, factor};
    for (std::size_t i = at.element(); i < batch; i += at.stride()) {
      if (i < count) {
        backward(gradient[i], logits[i], masks[i]);
      } else {
        store(gradient[i], 0.0F);
      }
    }
  }
};

template <class T>
using LossKernelsOf = KernelList<SoftmaxLoss<T>, SoftmaxLossGradient<T>, MaskLoss<T>, CountMasks<T>,
                                 MaskLossGradient<T>>;
using LossKernels =
    Concatenated<LossKernelsOf<float>, LossKernelsOf<Half>, LossKernelsOf<BFloat16>>::type;

}  // namespace ddprun::trainer::cuda
