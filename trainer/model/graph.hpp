// A model as a table: layers in topological order, each naming its inputs. No memory, no
// arithmetic, no device.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trainer/model/model.hpp"

namespace ddprun::trainer {

enum class LayerKind { input, convolution, linear, relu, max_pool, average_pool, flatten, add };

/// Sliding window of a convolution or a pooling layer, the same in both directions.
struct Window {
  int size = 1;
  int stride = 1;
  int padding = 0;
};

/// One image's activations are height x width x channels (channels last); after `flatten` 1 x 1 x
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

struct Layer {
  LayerKind kind = LayerKind::input;
  std::string
      name{};  ///< PyTorch's module: "conv1" gives conv1.weight, conv1.bias; empty: no parameters
  std::vector<int> inputs{};  ///< indices of earlier layers
  Window window{};
  ActivationShape output{};
  int weight = -1;  ///< index in Graph::parameters(); -1: none
  int bias = -1;
};

/// Built by one call per layer, in topological order; each returns the layer's index. The last
/// layer gives the logits, on which softmax cross-entropy follows. Calls throw DataError if an
/// image is too small for a window.
class Graph {
 public:
  explicit Graph(ImageShape image);

  int convolution(const std::string& name, int from, int channels, Window window);
  int linear(const std::string& name, int from, int features);
  int relu(int from);
  int max_pool(int from, Window window);
  int average_pool(int from, Window window);
  /// In PyTorch's order, channel by channel, so that the linear layer that follows has PyTorch's
  /// weight as it is.
  int flatten(int from);
  int add(int a, int b);

  /// Lays out the parameters: the last layer's first, as backward finishes them; weight before
  /// bias. Call once, last.
  void finish();

  [[nodiscard]] const std::vector<Layer>& layers() const { return layers_; }
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }
  [[nodiscard]] std::size_t arena_size() const { return arena_size_; }
  [[nodiscard]] int classes() const { return layers_.back().output.channels; }

  /// Where the gradients end that are final once backward has passed `layer`; only for layers with
  /// parameters.
  [[nodiscard]] std::size_t final_up_to(const Layer& layer) const;

 private:
  int append(Layer layer);
  int pool(LayerKind kind, int from, Window window);
  [[nodiscard]] const ActivationShape& output_of(int layer) const;

  std::vector<Layer> layers_;
  std::vector<Parameter> parameters_;
  std::size_t arena_size_ = 0;
};

}  // namespace ddprun::trainer
