#include "trainer/model/graph.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "base/rounded_up.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kParameterAlignment = 16;  // floats: 64 bytes

/// Appends the parameters of layers to an arena.
class Placing {
 public:
  Placing(const std::vector<Layer>& layers, std::vector<Parameter>& parameters)
      : layers_(layers), parameters_(parameters) {}
  /// The parameters of one layer.
  void place_all(Layer& one);
  [[nodiscard]] std::size_t arena_size() const { return arena_size_; }

 private:
  void place(Layer& layer, const char* suffix, std::vector<std::int64_t> shape,
             ParameterLayout layout, bool decay, InitialValues initial,
             ParameterRole role = ParameterRole::weight);
  void place_batch_norm(Layer& one);
  void place_text_parameters(Layer& one);
  [[nodiscard]] const ActivationShape& output_of(int layer) const {
    return layers_.at(static_cast<std::size_t>(layer)).output;
  }

  const std::vector<Layer>& layers_;
  std::vector<Parameter>& parameters_;
  std::size_t arena_size_ = 0;
};

void Placing::place(Layer& layer, const char* suffix, std::vector<std::int64_t> shape,
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

void Placing::place_all(Layer& one) {
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

void Placing::place_batch_norm(Layer& one) {
  const auto put = [&](const char* suffix, double value, ParameterRole role) {
    place(one, suffix, {one.output.channels}, ParameterLayout::as_pytorch, false,
          {InitialValues::Kind::constant, value}, role);
  };
  put(".weight", 1, ParameterRole::weight);
  put(".bias", 0, ParameterRole::weight);
  put(".running_mean", 0, ParameterRole::statistic);
  put(".running_var", 1, ParameterRole::statistic);
}

void Placing::place_text_parameters(Layer& one) {
  const std::int64_t channels = one.output.channels;
  const auto normal = [](double deviation) {
    return InitialValues{InitialValues::Kind::normal, deviation};
  };
  const auto constant = [](double value) {
    return InitialValues{InitialValues::Kind::constant, value};
  };
  const auto put = [&](const char* suffix, std::vector<std::int64_t> shape, bool decay,
                       InitialValues initial) {
    place(one, suffix, std::move(shape), ParameterLayout::as_pytorch, decay, initial);
  };
  if (const auto* embedding = std::get_if<layer::Embedding>(&one.kind)) {
    const InitialValues initial = normal(embedding->normal_deviation);
    put(".word_embeddings.weight", {embedding->vocabulary, channels}, true, initial);
    put(".position_embeddings.weight", {embedding->positions, channels}, true, initial);
    put(".token_type_embeddings.weight", {1, channels}, true, initial);
  } else if (const auto* projection = std::get_if<layer::AttentionProjection>(&one.kind)) {
    const std::int64_t inputs = output_of(one.inputs.at(0)).channels;
    for (const char* suffix : {".query.weight", ".key.weight", ".value.weight"})
      put(suffix, {channels / 3, inputs}, true, normal(projection->normal_deviation));
    for (const char* suffix : {".query.bias", ".key.bias", ".value.bias"})
      put(suffix, {channels / 3}, false, constant(0));
  } else if (std::holds_alternative<layer::LayerNorm>(one.kind)) {
    put(".weight", {channels}, false, constant(1));
    put(".bias", {channels}, false, constant(0));
  }
}

}  // namespace

std::string to_string(ImageShape shape) {
  return std::to_string(shape.height) + "x" + std::to_string(shape.width) + "x" +
         std::to_string(shape.channels);
}

void Graph::place_parameters() {
  Placing placing(layers_, parameters_);
  for (auto one = layers_.rbegin(); one != layers_.rend(); ++one) {
    if (!one->name.empty()) placing.place_all(*one);
  }
  arena_size_ = placing.arena_size();
}

Graph Graph::at_length(int tokens) const {
  Graph graph = *this;
  if (text_.positions == 0) return graph;
  if (tokens < 1 || tokens > text_.positions)
    throw std::logic_error("a length beyond the positions");
  for (Layer& layer : graph.layers_)
    if (layer.has_tokens) layer.output.width = tokens;
  return graph;
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
