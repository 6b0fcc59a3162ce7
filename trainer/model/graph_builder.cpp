#include "trainer/model/graph_builder.hpp"

#include <stdexcept>
#include <utility>

namespace ddprun::trainer {
namespace {

/// RoBERTa's first position is 2: its padding, which has id 1, takes position 1.
constexpr int kFirstPosition = 2;
/// Parameters of so many channels lie side by side in the arena, without padding between them.
constexpr int kPackedChannels = 16;

int slide(int length, const Window& window, const char* what) {
  const int room = length + 2 * window.padding - window.size;
  if (room < 0) {
    throw ImagesTooSmall(std::string("a ") + what + " of size " + std::to_string(window.size) +
                         " meets " + std::to_string(length) + " pixels");
  }
  return room / window.stride + 1;
}

}  // namespace

GraphBuilder::GraphBuilder(ImageShape image) {
  if (image.height < 1 || image.width < 1 || image.channels < 1) {
    throw DataError("an image needs at least one row, column and channel");
  }
  append({.kind = layer::Images{}, .output = {image.height, image.width, image.channels}});
}

int GraphBuilder::append(Layer layer) {
  graph_.layers_.push_back(std::move(layer));
  return static_cast<int>(graph_.layers_.size()) - 1;
}

int GraphBuilder::convolution(const std::string& name, int from, int channels,
                              layer::Convolution kind) {
  const ActivationShape& in = output_of(from);
  return append({.kind = kind,
                 .name = name,
                 .inputs = {from},
                 .output = {slide(in.height, kind.window, "convolution"),
                            slide(in.width, kind.window, "convolution"), channels}});
}

int GraphBuilder::transposed_convolution(const std::string& name, int from, int channels,
                                         layer::TransposedConvolution kind) {
  const ActivationShape& in = output_of(from);
  const auto enlarged = [&](int length) {
    return (length - 1) * kind.window.stride - 2 * kind.window.padding + kind.window.size;
  };
  if (enlarged(1) < 1) throw std::logic_error(name + " has more padding than its window fills");
  return append({.kind = kind,
                 .name = name,
                 .inputs = {from},
                 .output = {enlarged(in.height), enlarged(in.width), channels}});
}

int GraphBuilder::linear(const std::string& name, int from, int features, layer::Linear kind) {
  const Layer& input = layer(from);
  const ActivationShape& in = input.output;
  if (!input.has_tokens && (in.height != 1 || in.width != 1))
    throw std::logic_error(name + " needs a flatten before it");
  return append({.kind = kind,
                 .name = name,
                 .inputs = {from},
                 .output = {in.height, in.width, features},
                 .has_tokens = input.has_tokens});
}

int GraphBuilder::relu(int from) {
  return append({.kind = layer::Relu{}, .inputs = {from}, .output = output_of(from)});
}

int GraphBuilder::max_pool(int from, Window window) {
  const ActivationShape& in = output_of(from);
  return append({.kind = layer::MaxPool{window},
                 .inputs = {from},
                 .output = {slide(in.height, window, "pooling window"),
                            slide(in.width, window, "pooling window"), in.channels}});
}

int GraphBuilder::adaptive_average_pool(int from, int height, int width) {
  return append({.kind = layer::AdaptiveAveragePool{},
                 .inputs = {from},
                 .output = {height, width, output_of(from).channels}});
}

int GraphBuilder::batch_norm(const std::string& name, int from, bool relu) {
  return append(
      {.kind = layer::BatchNorm{relu}, .name = name, .inputs = {from}, .output = output_of(from)});
}

int GraphBuilder::dropout(int from, double probability, bool whole_channels) {
  if (probability == 0) return from;
  const Layer& input = layer(from);
  return append({.kind = layer::Dropout{.probability = probability,
                                        .whole_channels = whole_channels,
                                        .number = dropouts_++,
                                        .sample_stride = input.output.count()},
                 .inputs = {from},
                 .output = input.output,
                 .has_tokens = input.has_tokens});
}

int GraphBuilder::flatten(int from) {
  return append({.kind = layer::Flatten{},
                 .inputs = {from},
                 .output = {1, 1, static_cast<int>(output_of(from).count())}});
}

int GraphBuilder::add(int a, int b) {
  if (output_of(a) != output_of(b)) throw std::logic_error("add needs two inputs of one shape");
  return append({.kind = layer::Add{},
                 .inputs = {a, b},
                 .output = output_of(a),
                 .has_tokens = layer(a).has_tokens});
}

int GraphBuilder::concat(int a, int b) {
  const ActivationShape& first = output_of(a);
  const ActivationShape& second = output_of(b);
  if (first.height != second.height || first.width != second.width)
    throw std::logic_error("concat needs two inputs of one height and width");
  return append({.kind = layer::Concat{},
                 .inputs = {a, b},
                 .output = {first.height, first.width, first.channels + second.channels}});
}

int GraphBuilder::upsample(int from) {
  const ActivationShape& in = output_of(from);
  return append({.kind = layer::Upsample{},
                 .inputs = {from},
                 .output = {2 * in.height, 2 * in.width, in.channels}});
}

int GraphBuilder::softmax_cross_entropy(int logits) {
  return append({.kind = layer::SoftmaxCrossEntropy{}, .inputs = {logits}, .output = {0, 0, 0}});
}

int GraphBuilder::binary_cross_entropy(int logits, double positive_weight) {
  if (output_of(logits).channels != 1)
    throw std::logic_error("binary cross-entropy needs one logit a pixel");
  return append({.kind = layer::BinaryCrossEntropy{positive_weight},
                 .inputs = {logits},
                 .output = {0, 0, 0}});
}

GraphBuilder::GraphBuilder(TextShape text) {
  if (text.vocabulary < 1) throw DataError("a text model needs a vocabulary of at least one token");
  if (text.positions < 1 || text.positions % kLengthUnit != 0)
    throw std::logic_error("positions are no multiple of the unit of lengths");
  graph_.text_ = text;
  append({.kind = layer::Tokens{}, .output = {1, text.positions, 0}, .has_tokens = true});
}

int GraphBuilder::embedding(const std::string& name, int from, int channels) {
  if (!std::holds_alternative<layer::Tokens>(layer(from).kind))
    throw std::logic_error(name + " needs tokens");
  return append({.kind = layer::Embedding{.vocabulary = graph_.text_.vocabulary,
                                          .positions = graph_.text_.positions + kFirstPosition},
                 .name = name,
                 .inputs = {from},
                 .output = {1, graph_.text_.positions, channels},
                 .has_tokens = true});
}

int GraphBuilder::layer_norm(const std::string& name, int from) {
  const Layer& input = layer(from);
  return append({.kind = layer::LayerNorm{},
                 .name = name,
                 .inputs = {from},
                 .output = input.output,
                 .has_tokens = input.has_tokens});
}

int GraphBuilder::gelu(int from) {
  const Layer& input = layer(from);
  return append({.kind = layer::Gelu{},
                 .inputs = {from},
                 .output = input.output,
                 .has_tokens = input.has_tokens});
}

int GraphBuilder::tanh(int from) {
  const Layer& input = layer(from);
  return append({.kind = layer::Tanh{},
                 .inputs = {from},
                 .output = input.output,
                 .has_tokens = input.has_tokens});
}

int GraphBuilder::attention_projection(const std::string& name, int from, int channels) {
  if (channels % kPackedChannels != 0)
    throw std::logic_error(name + " needs channels in multiples of 16");
  return append({.kind = layer::AttentionProjection{},
                 .name = name,
                 .inputs = {from},
                 .output = {1, output_of(from).width, 3 * channels},
                 .has_tokens = true});
}

int GraphBuilder::attention(int from, int heads, double dropout, bool first_only) {
  const Layer& input = layer(from);
  if (!std::holds_alternative<layer::AttentionProjection>(input.kind) ||
      input.output.channels / 3 % heads != 0)
    throw std::logic_error("attention needs a projection with channels for each of its heads");
  return append({.kind = layer::Attention{.heads = heads,
                                          .dropout = dropout,
                                          .dropout_number = dropout > 0 ? dropouts_++ : 0,
                                          .positions = graph_.text_.positions,
                                          .first_only = first_only},
                 .inputs = {from},
                 .output = {1, first_only ? 1 : graph_.text_.positions, input.output.channels / 3},
                 .has_tokens = !first_only});
}

int GraphBuilder::first_token(int from) {
  if (!layer(from).has_tokens) throw std::logic_error("no tokens to take the first one of");
  return append(
      {.kind = layer::FirstToken{}, .inputs = {from}, .output = {1, 1, output_of(from).channels}});
}

Graph GraphBuilder::finish() {
  if (!is_loss(graph_.layers_.back().kind))
    throw std::logic_error("the last layer of a graph is the loss");
  graph_.place_parameters();
  return std::move(graph_);
}

}  // namespace ddprun::trainer
