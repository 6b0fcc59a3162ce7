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

/// A table of layers in topological order, and of their parameters. Layer 0 is the images or the
/// tokens, the last one the loss, which reads the logits.
class Graph {
 public:
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

  /// The weights of convolutions (transposed ones too), linear layers and
  /// embeddings begin normal with this deviation, their biases as 0; norms keep their 1 and 0.
  void begin_normal(double deviation);

 private:
  friend class GraphBuilder;
  Graph() = default;

  /// Lays out the parameters: the last layer's first, as backward finishes them; weight before
  /// bias; each on 64 bytes.
  void place_parameters();

  TextShape text_;
  std::vector<Layer> layers_;
  std::vector<Parameter> parameters_;
  std::size_t arena_size_ = 0;
};

}  // namespace ddprun::trainer
