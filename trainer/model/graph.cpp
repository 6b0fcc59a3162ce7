#include "trainer/model/graph.hpp"

#include <stdexcept>
#include <utility>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kParameterAlignment = 16;  // floats: 64 bytes

int slide(int length, const Window& window, const char* what) {
  const int room = length + 2 * window.padding - window.size;
  if (room < 0) {
    throw DataError(std::string("images are too small for this model: a ") + what + " of size " +
                    std::to_string(window.size) + " meets " + std::to_string(length) +
                    " pixels; use larger images or another model");
  }
  return room / window.stride + 1;
}

}  // namespace

Graph::Graph(ImageShape image) {
  if (image.height < 1 || image.width < 1 || image.channels < 1) {
    throw DataError("an image needs at least one row, column and channel");
  }
  append({.output = {image.height, image.width, image.channels}});
}

int Graph::append(Layer layer) {
  layers_.push_back(std::move(layer));
  return static_cast<int>(layers_.size()) - 1;
}

const ActivationShape& Graph::output_of(int layer) const {
  return layers_.at(static_cast<std::size_t>(layer)).output;
}

int Graph::convolution(const std::string& name, int from, int channels, Window window) {
  const ActivationShape& in = output_of(from);
  return append({.kind = LayerKind::convolution,
                 .name = name,
                 .inputs = {from},
                 .window = window,
                 .output = {slide(in.height, window, "convolution"),
                            slide(in.width, window, "convolution"), channels}});
}

int Graph::linear(const std::string& name, int from, int features) {
  const ActivationShape& in = output_of(from);
  if (in.height != 1 || in.width != 1) throw std::logic_error(name + " needs a flatten before it");
  return append(
      {.kind = LayerKind::linear, .name = name, .inputs = {from}, .output = {1, 1, features}});
}

int Graph::relu(int from) {
  return append({.kind = LayerKind::relu, .inputs = {from}, .output = output_of(from)});
}

int Graph::pool(LayerKind kind, int from, Window window) {
  const ActivationShape& in = output_of(from);
  return append({.kind = kind,
                 .inputs = {from},
                 .window = window,
                 .output = {slide(in.height, window, "pooling window"),
                            slide(in.width, window, "pooling window"), in.channels}});
}

int Graph::max_pool(int from, Window window) { return pool(LayerKind::max_pool, from, window); }

int Graph::average_pool(int from, Window window) {
  return pool(LayerKind::average_pool, from, window);
}

int Graph::flatten(int from) {
  return append({.kind = LayerKind::flatten,
                 .inputs = {from},
                 .output = {1, 1, static_cast<int>(output_of(from).count())}});
}

int Graph::add(int a, int b) {
  if (output_of(a) != output_of(b)) throw std::logic_error("add needs two inputs of one shape");
  return append({.kind = LayerKind::add, .inputs = {a, b}, .output = output_of(a)});
}

void Graph::finish() {
  const auto place = [&](std::string name, std::vector<std::int64_t> shape, ParameterLayout layout,
                         bool decay) {
    Parameter parameter{std::move(name), std::move(shape), layout, arena_size_, 1, decay};
    for (const std::int64_t length : parameter.shape) {
      parameter.count *= static_cast<std::size_t>(length);
    }
    arena_size_ +=
        (parameter.count + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
    parameters_.push_back(std::move(parameter));
    return static_cast<int>(parameters_.size()) - 1;
  };
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    if (layer->name.empty()) continue;
    const ActivationShape& in = output_of(layer->inputs[0]);
    const std::int64_t outputs = layer->output.channels;
    if (layer->kind == LayerKind::convolution) {
      const std::int64_t size = layer->window.size;
      layer->weight = place(layer->name + ".weight", {outputs, in.channels, size, size},
                            ParameterLayout::conv_ohwi, true);
    } else {
      layer->weight =
          place(layer->name + ".weight", {outputs, in.channels}, ParameterLayout::as_pytorch, true);
    }
    layer->bias = place(layer->name + ".bias", {outputs}, ParameterLayout::as_pytorch, false);
  }
}

std::size_t Graph::final_up_to(const Layer& layer) const {
  const auto next = static_cast<std::size_t>(layer.bias) + 1;
  return next < parameters_.size() ? parameters_[next].offset : arena_size_;
}

}  // namespace ddprun::trainer
