// The kinds of layers. No memory, no arithmetic: what a kind is, and what of a layer's values its
// backward reads.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::trainer {

/// Sliding window of a convolution or a pooling layer, the same in both directions.
struct Window {
  int size = 1;
  int stride = 1;
  int padding = 0;
};

/// One sample's activations are height x width x channels (channels last); after `flatten` 1 x 1 x
/// features.
struct ActivationShape {
  int height = 1;
  int width = 1;
  int channels = 1;
  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
           static_cast<std::size_t>(channels);
  }
  friend bool operator==(const ActivationShape&, const ActivationShape&) = default;
};

/// What of a layer's values must still be there when its backward runs. Its parameters always are.
struct BackwardReads {
  bool inputs = false;
  bool output = false;
};

/// Each kind: `reads`, and `in_place`: the output may have the first input's memory, and that
/// input's gradient the output gradient's.
namespace layer {

/// The first layer: the samples as they come.
struct Images {
  static constexpr BackwardReads reads{};
  static constexpr bool in_place = false;
};
struct Convolution {
  static constexpr BackwardReads reads{.inputs = true};
  static constexpr bool in_place = false;
  Window window;
  bool has_bias = true;
  /// Normal with variance 2 / (outputs x window), bias 0: He et al. 2015, torch's kaiming_normal_
  /// with fan_out. Otherwise PyTorch's default.
  bool he_initial = false;
};
/// PyTorch's ConvTranspose2d with a bias and its default initial values: each input pixel adds its
/// window to an output of (length - 1) * stride - 2 * padding + size + output_padding pixels.
struct TransposedConvolution {
  static constexpr BackwardReads reads{.inputs = true};
  static constexpr bool in_place = false;
  Window window;
  int output_padding = 0;  ///< below the stride
};
struct Linear {
  static constexpr BackwardReads reads{.inputs = true};
  static constexpr bool in_place = false;
};
struct Relu {
  static constexpr BackwardReads reads{.output = true};
  static constexpr bool in_place = true;
};
/// Backward knows the winners.
struct MaxPool {
  static constexpr BackwardReads reads{};
  static constexpr bool in_place = false;
  Window window;
};
/// The mean over all places of the window, padding included: PyTorch's default.
struct AveragePool {
  static constexpr BackwardReads reads{};
  static constexpr bool in_place = false;
  Window window;
};
/// Over the pixels that lie on each pixel of the output, as many as there are: PyTorch's
/// AdaptiveAvgPool2d.
struct AdaptiveAveragePool {
  static constexpr BackwardReads reads{};
  static constexpr bool in_place = false;
};
/// PyTorch's BatchNorm2d (epsilon 1e-5, momentum 0.1) over the samples of one shard, then a ReLU if
/// asked for. Evaluation uses the running mean and variance. Parameters: weight, bias,
/// running_mean, running_var; in the places of the last two's gradients stand the shard's mean and
/// its unbiased variance.
struct BatchNorm {
  static constexpr BackwardReads reads{.inputs = true};
  static constexpr bool in_place = false;
  bool relu = false;
};
/// Training: each element becomes 0 with `probability`, and the others are scaled by 1 / (1 -
/// probability); or each channel of each sample as a whole (Dropout2d). The mask is a function of
/// the run's seed, the step, the shard, the layer's number and the element alone. Evaluation:
/// nothing.
struct Dropout {
  static constexpr BackwardReads reads{};
  static constexpr bool in_place = true;
  double probability = 0.5;
  bool whole_channels = false;
  int number = 0;  ///< among the graph's dropout layers
};
/// In PyTorch's order, channel by channel, so that the linear layer that follows has PyTorch's
/// weight as it is.
struct Flatten {
  static constexpr BackwardReads reads{};
  static constexpr bool in_place = false;
};
struct Add {
  static constexpr BackwardReads reads{};
  static constexpr bool in_place = false;
};
/// Twice the height and the width, bilinear with half-pixel centres: PyTorch's
/// interpolate(scale_factor=2, mode="bilinear", align_corners=False).
struct Upsample {
  static constexpr BackwardReads reads{};
  static constexpr bool in_place = false;
};
/// Two inputs of one height and width: the channels of the first, then those of the second.
/// PyTorch's cat over dimension 1.
struct Concat {
  static constexpr BackwardReads reads{};
  static constexpr bool in_place = false;
};
/// The loss: mean over the samples of -ln softmax(logits)[label]. It has no output.
struct SoftmaxCrossEntropy {
  static constexpr BackwardReads reads{.inputs = true};
  static constexpr bool in_place = false;
};

/// The loss: mean over all samples and pixels of the binary cross-entropy of a logit against a
/// mask, PyTorch's BCEWithLogitsLoss(pos_weight). It has no output.
struct BinaryCrossEntropy {
  static constexpr BackwardReads reads{.inputs = true};
  static constexpr bool in_place = false;
  double positive_weight = 1;  ///< factor on the loss of what belongs to the mask
};

}  // namespace layer

using LayerKind =
    std::variant<layer::Images, layer::Convolution, layer::TransposedConvolution, layer::Linear,
                 layer::Relu, layer::MaxPool, layer::AveragePool, layer::AdaptiveAveragePool,
                 layer::BatchNorm, layer::Dropout, layer::Flatten, layer::Add, layer::Upsample,
                 layer::Concat, layer::SoftmaxCrossEntropy, layer::BinaryCrossEntropy>;

struct Layer {
  LayerKind kind;
  std::string
      name{};  ///< PyTorch's module: "conv1" gives conv1.weight, conv1.bias; empty: no parameters
  std::vector<int> inputs{};      ///< indices of earlier layers
  ActivationShape output{};       ///< of one sample
  std::vector<int> parameters{};  ///< indices in Graph::parameters(), in the order of the kind:
                                  ///< weight, bias
};

inline BackwardReads backward_reads(const LayerKind& kind) {
  return std::visit([](const auto& one) { return one.reads; }, kind);
}
inline bool works_in_place(const LayerKind& kind) {
  return std::visit([](const auto& one) { return one.in_place; }, kind);
}
/// Whether the layer reads master weights, whatever the storage type.
inline bool reads_master(const LayerKind& kind) {
  return std::holds_alternative<layer::BatchNorm>(kind);
}
inline bool is_loss(const LayerKind& kind) {
  return std::holds_alternative<layer::SoftmaxCrossEntropy>(kind) ||
         std::holds_alternative<layer::BinaryCrossEntropy>(kind);
}

/// What a loss holds a sample against.
enum class Target {
  label,  ///< its class
  mask,   ///< height x width values from 0 to 1, the share of each pixel that belongs to it
};
/// Of a loss.
inline Target target_of(const LayerKind& kind) {
  return std::holds_alternative<layer::BinaryCrossEntropy>(kind) ? Target::mask : Target::label;
}

}  // namespace ddprun::trainer
