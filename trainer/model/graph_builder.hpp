// Builds a graph, layer by layer.
#pragma once

#include <string>

#include "trainer/error.hpp"
#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

/// The message names the window and what it meets.
class ImagesTooSmall : public DataError {
 public:
  using DataError::DataError;
};

/// One call for each layer, in topological order; each returns the layer's index. Calls throw
/// ImagesTooSmall if a window does not fit.
class GraphBuilder {
 public:
  explicit GraphBuilder(ImageShape image);
  explicit GraphBuilder(TextShape text);

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
  int adaptive_average_pool(int from, int height, int width);
  int batch_norm(const std::string& name, int from, bool relu);
  /// `probability` of 0: no layer.
  int dropout(int from, double probability, bool whole_channels = false);
  int flatten(int from);
  int add(int a, int b);
  int concat(int a, int b);
  int upsample(int from);

  // Layers of texts.
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

  /// The layers so far.
  [[nodiscard]] const Layer& layer(int index) const { return graph_.layer(index); }
  /// The graph with its parameters. Call once, last.
  Graph finish();

 private:
  int append(Layer layer);
  [[nodiscard]] const ActivationShape& output_of(int index) const { return layer(index).output; }

  Graph graph_;
  int dropouts_ = 0;
};

}  // namespace ddprun::trainer
