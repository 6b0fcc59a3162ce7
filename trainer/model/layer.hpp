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

  friend bool operator==(const Window&, const Window&) = default;
};

/// One sample's activations are height x width x channels (channels last); after `flatten` 1 x 1 x
/// features; of a text 1 x tokens x channels.
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
/// window to an output of (length - 1) * stride - 2 * padding + size pixels.
struct TransposedConvolution {
  static constexpr BackwardReads reads{.inputs = true};
  static constexpr bool in_place = false;
  Window window;
};
/// PyTorch's Linear for each pixel or token by itself.
struct Linear {
  static constexpr BackwardReads reads{.inputs = true};
  static constexpr bool in_place = false;
  /// Weights normal with this deviation, bias 0. 0: PyTorch's default.
  double normal_deviation = 0;
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
/// The mean over the pixels that lie on each pixel of the output, as many as there are: PyTorch's
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
  int number = 0;  ///< among the graph's dropouts
  /// The mask numbers element e of sample s as s * sample_stride + e, so that the padding of a text
  /// does not change it. 0: samples lie side by side. A multiple of four where they do not.
  std::size_t sample_stride = 0;
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

// Layers of texts. Behind a sample's length there are tokens of padding: no real value depends on
// theirs, and the gradients that come back to them are 0.

/// The first layer of a text model. Token ids and lengths are in the Pass: there are no values.
struct Tokens {
  static constexpr BackwardReads reads{};
  static constexpr bool in_place = false;
};
/// The sum of a row for the token, one for its position (place + 2, as in RoBERTa, where padding
/// has position 1) and one for its type, of which there is one; 0 for padding. Parameters:
/// word_embeddings.weight, position_embeddings.weight, token_type_embeddings.weight, normal with
/// this deviation.
struct Embedding {
  static constexpr BackwardReads reads{};
  static constexpr bool in_place = false;
  int vocabulary = 0;
  int positions = 0;
  double normal_deviation = 0.02;
};
/// PyTorch's LayerNorm (epsilon 1e-5) over the channels. Parameters: weight, bias.
struct LayerNorm {
  static constexpr BackwardReads reads{.inputs = true};
  static constexpr bool in_place = false;
};
/// With erf, not its approximation by tanh: PyTorch's default.
struct Gelu {
  static constexpr BackwardReads reads{.inputs = true};
  static constexpr bool in_place = false;
};
struct Tanh {
  static constexpr BackwardReads reads{.output = true};
  static constexpr bool in_place = true;
};
/// The three linear layers before self-attention as one: of each token the query, the key and the
/// value behind one another. Parameters: query.weight, key.weight, value.weight, query.bias,
/// key.bias, value.bias; the three weights lie side by side in the arena, and so do the biases.
struct AttentionProjection {
  static constexpr BackwardReads reads{.inputs = true};
  static constexpr bool in_place = false;
  double normal_deviation = 0.02;
};
/// Multi-head self-attention, softmax(query key' / sqrt(channels of a head)) value, over the tokens
/// of a sample that are no padding. Reads the output of AttentionProjection. In training the
/// probabilities have a dropout: that of sample s, head h, query q and key k is element
/// ((s * heads + h) * positions + q) * positions + k of its mask.
struct Attention {
  static constexpr BackwardReads reads{.inputs = true};
  static constexpr bool in_place = false;
  int heads = 1;
  double dropout = 0;
  int dropout_number = 0;   ///< among the graph's dropouts
  int positions = 0;        ///< the most tokens of a sample
  bool first_only = false;  ///< the query is the first token alone: the output is 1 x 1 x channels
};
/// The values of each sample's first token: 1 x 1 x channels.
struct FirstToken {
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
                 layer::Relu, layer::MaxPool, layer::AdaptiveAveragePool, layer::BatchNorm,
                 layer::Dropout, layer::Flatten, layer::Add, layer::Upsample, layer::Concat,
                 layer::Tokens, layer::Embedding, layer::LayerNorm, layer::Gelu, layer::Tanh,
                 layer::AttentionProjection, layer::Attention, layer::FirstToken,
                 layer::SoftmaxCrossEntropy, layer::BinaryCrossEntropy>;

struct Layer {
  LayerKind kind;
  /// PyTorch's module: "conv1" gives conv1.weight, conv1.bias; empty: no parameters.
  std::string name{};
  std::vector<int> inputs{};  ///< indices of earlier layers
  ActivationShape output{};   ///< of one sample
  /// Indices in Graph::parameters(), in the order of the kind: weight, bias.
  std::vector<int> parameters{};
  bool has_tokens = false;  ///< the output's width is the number of tokens
};

inline BackwardReads backward_reads(const LayerKind& kind) {
  return std::visit([](const auto& one) { return one.reads; }, kind);
}
inline bool works_in_place(const LayerKind& kind) {
  return std::visit([](const auto& one) { return one.in_place; }, kind);
}
/// Whether the layer reads master weights, whatever the storage type.
inline bool reads_master(const LayerKind& kind) {
  return std::holds_alternative<layer::BatchNorm>(kind) ||
         std::holds_alternative<layer::LayerNorm>(kind);
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
/// What a loss holds a sample against.
inline Target target_of(const LayerKind& kind) {
  return std::holds_alternative<layer::BinaryCrossEntropy>(kind) ? Target::mask : Target::label;
}

}  // namespace ddprun::trainer
