// Batch norm and layer norm.
#pragma once

#include <cmath>
#include <cstddef>

#include "trainer/compute/layer_ops.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/cuda/kernel.hpp"
#include "trainer/cuda/kernels/packs.hpp"
#include "trainer/cuda/kernels/sum_kernels.hpp"

namespace ddprun::trainer::cuda {

inline constexpr float kBatchNormEpsilon = 1e-5F;  ///< PyTorch's

// T: float, Half, BFloat16. Values: rows x channels.

DDPRUN_HOST_DEVICE inline float reciprocal_deviation(float variance) {
  return 1.0F / std::sqrt(variance + kBatchNormEpsilon);
}

/// What a batch norm does with the values of one channel, and what its backward needs to do that
/// again.
struct BatchNormChannel {
  float weight, bias, mean;
  float reciprocal;  ///< reciprocal_deviation() of the variance
  bool relu;

  [[nodiscard]] DDPRUN_HOST_DEVICE float normal(float value) const {
    return (value - mean) * reciprocal;
  }
  /// Before the ReLU.
  [[nodiscard]] DDPRUN_HOST_DEVICE float scaled(float normal) const {
    return normal * weight + bias;
  }
  /// The slope that passes the ReLU of a value.
  [[nodiscard]] DDPRUN_HOST_DEVICE float passed(float slope, float normal) const {
    return relu && scaled(normal) <= 0.0F ? 0.0F : slope;
  }
};

/// All vectors: channels.
struct BatchNormChannels {
  const float* weight;
  const float* bias;
  const float* mean;
  const float* variance;
  std::size_t channels;
  bool relu;

  [[nodiscard]] DDPRUN_HOST_DEVICE BatchNormChannel at(std::size_t channel) const {
    return {weight[channel], bias[channel], mean[channel], reciprocal_deviation(variance[channel]),
            relu};
  }

  template <std::size_t kCount>
  struct Side {  ///< channels side by side
    Pack<float, kCount> weight, bias, mean, variance;
    bool relu;
    [[nodiscard]] DDPRUN_HOST_DEVICE BatchNormChannel at(std::size_t k) const {
      return {weight.values[k], bias.values[k], mean.values[k],
              reciprocal_deviation(variance.values[k]), relu};
    }
  };
  template <std::size_t kCount>
  [[nodiscard]] DDPRUN_HOST_DEVICE bool lie_as_packs() const {
    return channels % kCount == 0 && cuda::lie_as_packs<kCount>(weight, bias, mean, variance);
  }
  template <std::size_t kCount>
  [[nodiscard]] DDPRUN_HOST_DEVICE Side<kCount> from(std::size_t first) const {
    return {read_pack<kCount>(weight + first), read_pack<kCount>(bias + first),
            read_pack<kCount>(mean + first), read_pack<kCount>(variance + first), relu};
  }
};

template <class T>
struct BatchNormForward {
  static constexpr std::size_t kValues = kPackValues<T>;
  BatchNormChannels norm;
  const T* input;
  T* output;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (norm.lie_as_packs<kValues>() && lie_as_packs<kValues>(input, output)) {
      run<kValues>(at);
    } else {
      run<1>(at);
    }
  }

 private:
  template <std::size_t kCount>
  DDPRUN_HOST_DEVICE void run(const ThreadPlace& at) const {
    each_pack<kCount>(at, count, [&](std::size_t i) {
      const auto channels = norm.from<kCount>(i % norm.channels);
      const auto values = read_pack<kCount>(input + i);
      Pack<T, kCount> result;
      for (std::size_t k = 0; k < kCount; ++k) {
        const BatchNormChannel channel = channels.at(k);
        const float value = channel.scaled(channel.normal(load(values.values[k])));
        store(result.values[k], channel.relu && value < 0.0F ? 0.0F : value);
      }
      write_pack(output + i, result);
    });
  }
};

/// For weight and bias: the slopes that pass, times the normalised value, and by themselves.
template <class T>
struct BatchNormTerm {
  BatchNormChannels norm;
  const T* input;
  const T* slopes;
  DDPRUN_HOST_DEVICE auto of(std::size_t channel) const {
    return [*this, channel, own = norm.at(channel)](std::size_t row) -> SumPair {
      const std::size_t i = row * norm.channels + channel;
      const float normal = own.normal(load(input[i]));
      const float passed = own.passed(load(slopes[i]), normal);
      return {passed * normal, passed};
    };
  }
};

template <class T>
struct BatchNormGradient {
  static constexpr std::size_t kValues = kPackValues<T>;
  BatchNormChannels norm;
  const T* input;
  const T* slopes;
  const float* weight_gradient;
  const float* bias_gradient;
  float row_share;  ///< 1 / rows
  T* gradient;
  std::size_t count;
  DDPRUN_HOST_DEVICE void operator()(const ThreadPlace& at) const {
    if (norm.lie_as_packs<kValues>() && lie_as_packs<kValues>(weight_gradient, bias_gradient) &&
        lie_as_packs<kValues>(input, slopes, gradient)) {
      run<kValues>(at);
    } else {
      run<1>(at);
    }
  }

 private:
  template <std::size_t kCount>
  DDPRUN_HOST_DEVICE void run(const ThreadPlace& at) const {
    each_pack<kCount>(at, count, [&](std::size_t i) {
      const std::size_t first = i % norm.channels;
      const auto channels = norm.from<kCount>(first);
      const auto products = read_pack<kCount>(weight_gradient + first);
      const auto sums = read_pack<kCount>(bias_gradient + first);
      const auto values = read_pack<kCount>(input + i);
      const auto given = read_pack<kCount>(slopes + i);
      Pack<T, kCount> result;
      for (std::size_t k = 0; k < kCount; ++k) {
        const BatchNormChannel channel = channels.at(k);
        const float normal = channel.normal(load(values.values[k]));
        const float slope = channel.passed(load(given.values[k]), normal);
        const float mean_slope = sums.values[k] * row_share;
        const float mean_product = products.values[k] * row_share;
        store(result.values[k],
              (slope - mean_slope - normal * mean_product) * channel.weight * channel.reciprocal);
      }
      write_pack(gradient + i, result);
    });
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
using NormKernelsOf = KernelList<BatchNormForward<T>, ColumnSums<BatchNormTerm<T>>,
                                 BatchNormGradient<T>, LayerNormForward<T>, LayerNormGradient<T>>;
using NormKernels = Concatenated<KernelList<GiveChannels>, NormKernelsOf<float>,
                                 NormKernelsOf<Half>, NormKernelsOf<BFloat16>>::type;

}  // namespace ddprun::trainer::cuda
