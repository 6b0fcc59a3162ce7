// Batch norm and layer norm.
#pragma once

#include <cmath>
#include <cstddef>

#include "trainer/compute/layer_norm_ops.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/cuda/kernel.hpp"
#include "trainer/cuda/kernels/sum_kernels.hpp"

namespace ddprun::trainer::cuda {

inline constexpr float kBatchNormEpsilon = 1e-5F;  ///< PyTorch's

// T: float, Half, BFloat16. Values: rows x channels.

/// What a batch norm does with one value, and what its backward needs to do that again. All
/// vectors: channels.
struct BatchNormChannels {
  const float* weight;
  const float* bias;
  const float* mean;
  const float* variance;
  std::size_t channels;
  bool relu;

  [[nodiscard]] DDPRUN_HOST_DEVICE float reciprocal(std::size_t channel) const {
    return 1.0F / std::sqrt(variance[channel] + kBatchNormEpsilon);
  }
  [[nodiscard]] DDPRUN_HOST_DEVICE float normal(float value, std::size_t channel) const {
    return (value - mean[channel]) * reciprocal(channel);
  }
  /// Before the ReLU.
  [[nodiscard]] DDPRUN_HOST_DEVICE float scaled(float normal, std::size_t channel) const {
    return normal * weight[channel] + bias[channel];
  }
  /// The slope that passes the ReLU of a value.
  [[nodiscard]] DDPRUN_HOST_DEVICE float passed(float slope, float normal,
                                                std::size_t channel) const {
    return relu && scaled(normal, channel) <= 0.0F ? 0.0F : slope;
  }
};

template <class T>
struct BatchNormForward {
  BatchNormChannels norm;
  const T* input;
  T* output;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const std::size_t channel = i % norm.channels;
      const float value = norm.scaled(norm.normal(load(input[i]), channel), channel);
      store(output[i], norm.relu && value < 0.0F ? 0.0F : value);
    }
  }
};

/// For the bias: the slopes that pass.
template <class T>
struct BatchNormBiasTerm {
  BatchNormChannels norm;
  const T* input;
  const T* slopes;
  DDPRUN_HOST_DEVICE float operator()(std::size_t row, std::size_t channel) const {
    const std::size_t i = row * norm.channels + channel;
    return norm.passed(load(slopes[i]), norm.normal(load(input[i]), channel), channel);
  }
};

/// For the weight: the same times the normalised value.
template <class T>
struct BatchNormWeightTerm {
  BatchNormChannels norm;
  const T* input;
  const T* slopes;
  DDPRUN_HOST_DEVICE float operator()(std::size_t row, std::size_t channel) const {
    const std::size_t i = row * norm.channels + channel;
    const float normal = norm.normal(load(input[i]), channel);
    return norm.passed(load(slopes[i]), normal, channel) * normal;
  }
};

template <class T>
struct BatchNormGradient {
  BatchNormChannels norm;
  const T* input;
  const T* slopes;
  const float* weight_gradient;
  const float* bias_gradient;
  float row_share;  ///< 1 / rows
  T* gradient;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t i = at.element(); i < count; i += at.stride()) {
      const std::size_t channel = i % norm.channels;
      const float normal = norm.normal(load(input[i]), channel);
      const float slope = norm.passed(load(slopes[i]), normal, channel);
      const float mean_slope = bias_gradient[channel] * row_share;
      const float mean_product = weight_gradient[channel] * row_share;
      store(gradient[i], (slope - mean_slope - normal * mean_product) * norm.weight[channel] *
                             norm.reciprocal(channel));
    }
  }
};

/// A shard's gradients of weight and bias, and what the optimizer mixes into the running
/// statistics, to the arena; or added to what is there.
struct GiveChannels {
  const float* mean;
  const float* variance;
  float unbiased;  ///< factor of the variance
  const float* weight_gradient;
  const float* bias_gradient;
  float* to_weight;
  float* to_bias;
  float* to_mean;
  float* to_variance;
  bool adds;
  std::size_t channels;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    for (std::size_t c = at.element(); c < channels; c += at.stride()) {
      give(to_weight[c], weight_gradient[c]);
      give(to_bias[c], bias_gradient[c]);
      give(to_mean[c], mean[c]);
      give(to_variance[c], variance[c] * unbiased);
    }
  }

 private:
  DDPRUN_HOST_DEVICE void give(float& to, float value) const { to = adds ? to + value : value; }
};

/// A block a row.
template <class T>
struct LayerNormForward {
  static constexpr int kPhases = 2 * (kTreePhases + 1) + 1;
  struct Shared {
    BlockTree<float> tree;
    float mean;
  };
  const T* input;
  const float* weight;
  const float* bias;
  T* output;
  RowMoments* moments;  ///< null in evaluation
  std::size_t channels;

  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at, int phase, Shared& shared) const {
    constexpr int kSquares = kTreePhases + 1;
    const std::size_t first = at.block * channels;
    const auto count = static_cast<float>(channels);
    if (phase == 0) {
      float sum = 0;
      for (std::size_t c = at.thread; c < channels; c += kBlockThreads)
        sum += load(input[first + c]);
      shared.tree.places[at.thread] = sum;
    } else if (phase < kSquares) {
      shared.tree.add(at.thread, phase);
      if (phase == kTreePhases && at.thread == 0) shared.mean = shared.tree.places[0] / count;
    } else if (phase == kSquares) {
      float sum = 0;
      for (std::size_t c = at.thread; c < channels; c += kBlockThreads) {
        const float distance = load(input[first + c]) - shared.mean;
        sum += distance * distance;
      }
      shared.tree.places[at.thread] = sum;
    } else if (phase < kPhases - 1) {
      shared.tree.add(at.thread, phase - kSquares);
    } else {
      const LayerNorm norm{row_moments(shared.mean, shared.tree.places[0], count)};
      for (std::size_t c = at.thread; c < channels; c += kBlockThreads)
        norm(output[first + c], input[first + c], weight[c], bias[c]);
      if (moments != nullptr && at.thread == 0) moments[at.block] = norm.moments;
    }
  }
};

/// A block a row: of the input.
template <class T>
struct LayerNormGradient {
  static constexpr int kPhases = kTreePhases + 2;
  struct Sums {
    float slope, product;
    DDPRUN_HOST_DEVICE void operator+=(const Sums& more) {
      slope += more.slope;
      product += more.product;
    }
  };
  struct Shared {
    BlockTree<Sums> tree;
  };
  const T* input;
  const T* slopes;
  const float* weight;
  const RowMoments* moments;
  T* gradient;
  std::size_t channels;

  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at, int phase, Shared& shared) const {
    const std::size_t first = at.block * channels;
    const RowMoments row = moments[at.block];
    if (phase == 0) {
      Sums mine{0, 0};
      for (std::size_t c = at.thread; c < channels; c += kBlockThreads) {
        const float slope = load(slopes[first + c]) * weight[c];
        mine += Sums{slope, slope * normalized(input[first + c], row)};
      }
      shared.tree.places[at.thread] = mine;
    } else if (phase <= kTreePhases) {
      shared.tree.add(at.thread, phase);
    } else {
      const auto count = static_cast<float>(channels);
      const Sums& sums = shared.tree.places[0];
      const LayerNormBackward backward{row, sums.slope / count, sums.product / count};
      for (std::size_t c = at.thread; c < channels; c += kBlockThreads)
        backward(gradient[first + c], slopes[first + c], input[first + c], weight[c]);
    }
  }
};

template <class T>
using NormKernelsOf = KernelList<BatchNormForward<T>, ColumnSums<BatchNormBiasTerm<T>>,
                                 ColumnSums<BatchNormWeightTerm<T>>, BatchNormGradient<T>,
                                 LayerNormForward<T>, LayerNormGradient<T>>;
using NormKernels = Concatenated<KernelList<GiveChannels>, NormKernelsOf<float>,
                                 NormKernelsOf<Half>, NormKernelsOf<BFloat16>>::type;

}  // namespace ddprun::trainer::cuda
