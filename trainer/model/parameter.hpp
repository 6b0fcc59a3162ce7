// One parameter of a model: its place in the arenas, its names and shapes in PyTorch, how it
// begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::trainer {

/// How the arena orders the elements of a parameter, relative to PyTorch's shape.
enum class ParameterLayout {
  as_pytorch,  ///< row-major in PyTorch's shape (linear: out x in)
  /// PyTorch's O,I,H,W stored as O,H,W,I (channels last); of a transposed convolution I,O,H,W as
  /// I,H,W,O.
  conv_ohwi,
};

/// The distribution of a parameter's first values.
struct InitialValues {
  enum class Kind { uniform, normal, constant } kind = Kind::constant;
  /// uniform: in [-value, value). normal: the standard deviation, around 0. constant: the value.
  double value = 0;
};

/// What an arena keeps there, and so what an optimizer does with it.
enum class ParameterRole {
  weight,     ///< its gradient is that of the loss
  statistic,  ///< a running mean; the place of its gradient holds a shard's part of the new mean
};

/// Parameters, gradients and optimizer moments share offsets.
struct Parameter {
  std::string name;                 ///< PyTorch's, e.g. "conv1.weight"
  std::vector<std::int64_t> shape;  ///< PyTorch's
  ParameterLayout layout = ParameterLayout::as_pytorch;
  std::size_t offset = 0;  ///< in floats
  std::size_t count = 0;   ///< in floats
  bool decay = true;       ///< false: weight decay leaves it alone (biases, norms)
  InitialValues initial{};
  ParameterRole role = ParameterRole::weight;
};

}  // namespace ddprun::trainer
