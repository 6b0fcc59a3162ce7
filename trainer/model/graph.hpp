// A model as a table: layers in topological order, each naming its inputs. No memory, no
// arithmetic, no device.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trainer/error.hpp"
#include "trainer/model/layer.hpp"
#include "trainer/model/parameter.hpp"

namespace ddprun::trainer {

struct ImageShape {
  int height = 28;
  int width = 28;
  int channels = 1;
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

/// As --image-shape has it: "28x28x1".
std::string to_string(ImageShape shape);

struct TextShape {
  int vocabulary = 0;  ///< token ids are below it; 0: no text
  int positions = 0;   ///< the most tokens of a sample; of a graph a multiple of kLengthUnit
};

/// Texts are computed with lengths that are multiples of this.
inline constexpr int kLengthUnit = 32;

/// The message names the window and what it meets.
class ImagesTooSmall : public DataError {
 public:
  using DataError::DataError;
};

/// Built by one call per layer, in topological order; each returns the layer's index. Layer 0 is
/// the images or the tokens, the last one the loss, which reads the logits. Calls throw
/// ImagesTooSmall if a window does not fit.
class Graph {
 public:
  explicit Graph(ImageShape image);
  explicit Graph(TextShape text);

  int convolution(const std::string& name, int from, int channels, layer::Convolution kind);
  int convolution(const std::string& name, int from, int channels, Window window) {
    return convolution(name, from, channels, layer::Convolution{.window = window});
  }
  int transposed_convolution(const std::string& name, int from, int channels,
                             layer::TransposedConvolution kind);
  /// Images must have been flattened; texts have it for each token.
  int linear(const std::string& name, int from, int features, layer::Linear kind = {});
  int relu(int from);
  int max_pool(int from, Window window);
  int average_pool(int from, Window window);
  int adaptive_average_pool(int from, int height, int width);
  int batch_norm(const std::string& name, int from, bool relu);
  /// `probability` of 0: no layer.
  int dropout(int from, double probability, bool whole_channels = false);
  int flatten(int from);
  int add(int a, int b);
  int concat(int a, int b);
  int upsample(int from);

  // Layers of texts (graph_text.cpp).
  int embedding(const std::string& name, int from, int channels);
  int layer_norm(const std::string& name, int from);
  int gelu(int from);
  int tanh(int from);
  /// `channels`, a multiple of 16, of each of the three.
  int attention_projection(const std::string& name, int from, int channels);
  /// `from`: an attention_projection. `heads` divides its channels.
  int attention(int from, int heads, double dropout, bool first_only = false);
  int first_token(int from);

  int softmax_cross_entropy(int logits);
  /// `logits`: one channel.
  int binary_cross_entropy(int logits, double positive_weight);

  /// Lays out the parameters: the last layer's first, as backward finishes them; weight before
  /// bias; each on 64 bytes. Call once, last.
  void finish();

  /// After finish(): the weights of convolutions (transposed ones too), linear layers and
  /// embeddings begin normal with this deviation, their biases as 0; norms keep their 1 and 0.
  void begin_normal(double deviation);

  [[nodiscard]] const std::vector<Layer>& layers() const { return layers_; }
  [[nodiscard]] const Layer& layer(int index) const {
    return layers_.at(static_cast<std::size_t>(index));
  }
  /// In the arena's order.
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }
  /// In floats, padding between parameters included.
  [[nodiscard]] std::size_t arena_size() const { return arena_size_; }
  /// All zeros where the inputs are images.
  [[nodiscard]] const TextShape& text() const { return text_; }
  /// This graph for texts of `tokens` tokens, at most the positions, with the same parameters. A
  /// graph of images: a copy.
  [[nodiscard]] Graph at_length(int tokens) const;
  [[nodiscard]] int classes() const { return logits().channels; }
  [[nodiscard]] Target target() const { return target_of(layers_.back().kind); }
  /// What the loss reads of one sample.
  [[nodiscard]] const ActivationShape& logits() const {
    return layer(layers_.back().inputs.at(0)).output;
  }

  /// Where the gradients end that are final once backward has passed `layer`; only for layers with
  /// parameters.
  [[nodiscard]] std::size_t final_up_to(const Layer& layer) const;

 private:
  int append(Layer layer);
  int pool(LayerKind kind, int from, const Window& window);
  void place(Layer& layer, const char* suffix, std::vector<std::int64_t> shape,
             ParameterLayout layout, bool decay, InitialValues initial,
             ParameterRole role = ParameterRole::weight);
  void place_parameters(Layer& layer);
  void place_batch_norm(Layer& layer);
  void place_text_parameters(Layer& layer);
  [[nodiscard]] const ActivationShape& output_of(int layer) const;

  TextShape text_;
  std::vector<Layer> layers_;
  std::vector<Parameter> parameters_;
  std::size_t arena_size_ = 0;
  int dropouts_ = 0;
};

}  // namespace ddprun::trainer
