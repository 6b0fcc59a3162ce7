#include "trainer/model/graph.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "base/rounded_up.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {

std::string to_string(ImageShape shape) {
  return std::to_string(shape.height) + "x" + std::to_string(shape.width) + "x" +
         std::to_string(shape.channels);
}

namespace {

constexpr std::size_t kParameterAlignment = 16;  // floats: 64 bytes

int slide(int length, const Window& window, const char* what) {
  const int room = length + 2 * window.padding - window.size;
  if (room < 0) {
    throw ImagesTooSmall(std::string("a ") + what + " of size " + std::to_string(window.size) +
                         " meets " + std::to_string(length) + " pixels");
  }
  return room / window.stride + 1;
}

}  // namespace

Graph::Graph(ImageShape image) {
  if (image.height < 1 || image.width < 1 || image.channels < 1) {
    throw DataError("an image needs at least one row, column and channel");
  }
  append({.kind = layer::Images{}, .output = {image.height, image.width, image.channels}});
}

int Graph::append(Layer layer) {
  layers_.push_back(std::move(layer));
  return static_cast<int>(layers_.size()) - 1;
}

const ActivationShape& Graph::output_of(int layer) const {
  return layers_.at(static_cast<std::size_t>(layer)).output;
}

int Graph::convolution(const std::string& name, int from, int channels, layer::Convolution kind) {
  const ActivationShape& in = output_of(from);
  return append({.kind = kind,
                 .name = name,
                 .inputs = {from},
                 .output = {slide(in.height, kind.window, "convolution"),
                            slide(in.width, kind.window, "convolution"), channels}});
}

int Graph::transposed_convolution(const std::string& name, int from, int channels,
                                  layer::TransposedConvolution kind) {
  const ActivationShape& in = output_of(from);
  const auto enlarged = [&](int length) {
    return (length - 1) * kind.window.stride - 2 * kind.window.padding + kind.window.size +
           kind.output_padding;
  };
  if (enlarged(1) < 1) throw std::logic_error(name + " has more padding than its window fills");
  return append({.kind = kind,
                 .name = name,
                 .inputs = {from},
                 .output = {enlarged(in.height), enlarged(in.width), channels}});
}

int Graph::linear(const std::string& name, int from, int features, layer::Linear kind) {
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

int Graph::relu(int from) {
  return append({.kind = layer::Relu{}, .inputs = {from}, .output = output_of(from)});
}

int Graph::pool(LayerKind kind, int from, const Window& window) {
  const ActivationShape& in = output_of(from);
  return append({.kind = kind,
                 .inputs = {from},
                 .output = {slide(in.height, window, "pooling window"),
                            slide(in.width, window, "pooling window"), in.channels}});
}

int Graph::max_pool(int from, Window window) { return pool(layer::MaxPool{window}, from, window); }

int Graph::average_pool(int from, Window window) {
  return pool(layer::AveragePool{window}, from, window);
}

int Graph::adaptive_average_pool(int from, int height, int width) {
  return append({.kind = layer::AdaptiveAveragePool{},
                 .inputs = {from},
                 .output = {height, width, output_of(from).channels}});
}

int Graph::batch_norm(const std::string& name, int from, bool relu) {
  return append(
      {.kind = layer::BatchNorm{relu}, .name = name, .inputs = {from}, .output = output_of(from)});
}

int Graph::dropout(int from, double probability, bool whole_channels) {
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

int Graph::flatten(int from) {
  return append({.kind = layer::Flatten{},
                 .inputs = {from},
                 .output = {1, 1, static_cast<int>(output_of(from).count())}});
}

int Graph::add(int a, int b) {
  if (output_of(a) != output_of(b)) throw std::logic_error("add needs two inputs of one shape");
  return append({.kind = layer::Add{},
                 .inputs = {a, b},
                 .output = output_of(a),
                 .has_tokens = layer(a).has_tokens});
}

int Graph::concat(int a, int b) {
  const ActivationShape& first = output_of(a);
  const ActivationShape& second = output_of(b);
  if (first.height != second.height || first.width != second.width)
    throw std::logic_error("concat needs two inputs of one height and width");
  return append({.kind = layer::Concat{},
                 .inputs = {a, b},
                 .output = {first.height, first.width, first.channels + second.channels}});
}

int Graph::upsample(int from) {
  const ActivationShape& in = output_of(from);
  return append({.kind = layer::Upsample{},
                 .inputs = {from},
                 .output = {2 * in.height, 2 * in.width, in.channels}});
}

int Graph::softmax_cross_entropy(int logits) {
  return append({.kind = layer::SoftmaxCrossEntropy{}, .inputs = {logits}, .output = {0, 0, 0}});
}

int Graph::binary_cross_entropy(int logits, double positive_weight) {
  if (output_of(logits).channels != 1)
    throw std::logic_error("binary cross-entropy needs one logit a pixel");
  return append({.kind = layer::BinaryCrossEntropy{positive_weight},
                 .inputs = {logits},
                 .output = {0, 0, 0}});
}

void Graph::place(Layer& layer, const char* suffix, std::vector<std::int64_t> shape,
                  ParameterLayout layout, bool decay, InitialValues initial, ParameterRole role) {
  Parameter parameter{.name = layer.name + suffix,
                      .shape = std::move(shape),
                      .layout = layout,
                      .offset = arena_size_,
                      .count = 1,
                      .decay = decay,
                      .initial = initial,
                      .role = role};
  for (const std::int64_t length : parameter.shape) {
    parameter.count *= static_cast<std::size_t>(length);
  }
  arena_size_ += rounded_up(parameter.count, kParameterAlignment);
  layer.parameters.push_back(static_cast<int>(parameters_.size()));
  parameters_.push_back(std::move(parameter));
}

void Graph::place_parameters(Layer& one) {
  const std::int64_t outputs = one.output.channels;
  const std::int64_t inputs = output_of(one.inputs.at(0)).channels;
  // PyTorch's default: what kaiming_uniform(a = sqrt(5)) comes to, for the bias too.
  const auto default_of = [](std::int64_t fan_in) {
    return InitialValues{InitialValues::Kind::uniform,
                         1.0 / std::sqrt(static_cast<double>(fan_in))};
  };
  if (const auto* convolution = std::get_if<layer::Convolution>(&one.kind)) {
    const std::int64_t size = convolution->window.size;
    InitialValues weight = default_of(inputs * size * size);
    InitialValues bias = weight;
    if (convolution->he_initial) {
      const double fan_out = static_cast<double>(outputs * size * size);
      weight = {InitialValues::Kind::normal, std::sqrt(2.0 / fan_out)};
      bias = {InitialValues::Kind::constant, 0};
    }
    place(one, ".weight", {outputs, inputs, size, size}, ParameterLayout::conv_ohwi, true, weight);
    if (convolution->has_bias)
      place(one, ".bias", {outputs}, ParameterLayout::as_pytorch, false, bias);
  } else if (const auto* transposed = std::get_if<layer::TransposedConvolution>(&one.kind)) {
    const std::int64_t size = transposed->window.size;
    // PyTorch takes the second dimension, here the outputs, for the fan.
    const InitialValues initial = default_of(outputs * size * size);
    place(one, ".weight", {inputs, outputs, size, size}, ParameterLayout::conv_ohwi, true, initial);
    place(one, ".bias", {outputs}, ParameterLayout::as_pytorch, false, initial);
  } else if (std::holds_alternative<layer::BatchNorm>(one.kind)) {
    place_batch_norm(one);
  } else if (const auto* linear = std::get_if<layer::Linear>(&one.kind)) {
    InitialValues weight = default_of(inputs);
    InitialValues bias = weight;
    if (linear->normal_deviation > 0) {
      weight = {InitialValues::Kind::normal, linear->normal_deviation};
      bias = {InitialValues::Kind::constant, 0};
    }
    place(one, ".weight", {outputs, inputs}, ParameterLayout::as_pytorch, true, weight);
    place(one, ".bias", {outputs}, ParameterLayout::as_pytorch, false, bias);
  } else {
    place_text_parameters(one);
  }
}

void Graph::place_batch_norm(Layer& one) {
  const auto put = [&](const char* suffix, double value, ParameterRole role) {
    place(one, suffix, {one.output.channels}, ParameterLayout::as_pytorch, false,
          {InitialValues::Kind::constant, value}, role);
  };
  put(".weight", 1, ParameterRole::weight);
  put(".bias", 0, ParameterRole::weight);
  put(".running_mean", 0, ParameterRole::statistic);
  put(".running_var", 1, ParameterRole::statistic);
}

void Graph::finish() {
  if (!is_loss(layers_.back().kind))
    throw std::logic_error("the last layer of a graph is the loss");
  for (auto one = layers_.rbegin(); one != layers_.rend(); ++one) {
    if (!one->name.empty()) place_parameters(*one);
  }
}

void Graph::begin_normal(double deviation) {
  for (const Layer& one : layers_) {
    const bool has_weights = std::holds_alternative<layer::Convolution>(one.kind) ||
                             std::holds_alternative<layer::TransposedConvolution>(one.kind) ||
                             std::holds_alternative<layer::Linear>(one.kind) ||
                             std::holds_alternative<layer::AttentionProjection>(one.kind) ||
                             std::holds_alternative<layer::Embedding>(one.kind);
    if (!has_weights) continue;
    for (const int index : one.parameters) {
      Parameter& parameter = parameters_[static_cast<std::size_t>(index)];
      parameter.initial = parameter.shape.size() > 1
                              ? InitialValues{InitialValues::Kind::normal, deviation}
                              : InitialValues{InitialValues::Kind::constant, 0};
    }
  }
}

std::size_t Graph::final_up_to(const Layer& layer) const {
  const auto next = static_cast<std::size_t>(layer.parameters.back()) + 1;
  return next < parameters_.size() ? parameters_[next].offset : arena_size_;
}

}  // namespace ddprun::trainer
