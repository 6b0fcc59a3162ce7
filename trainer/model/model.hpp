// What the training loop sees of a model: a table of parameters, and executors that compute one
// shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ddprun::trainer {

/// Storage type of activations, of their gradients and of the parameters that the layers read.
/// Arithmetic, master weights and gradient arenas are always fp32.
enum class Precision { fp32, bf16, fp16 };

/// How the arena orders the elements of a parameter, relative to PyTorch's shape.
enum class ParameterLayout {
  as_pytorch,  ///< row-major in PyTorch's shape (linear: out x in)
  conv_ohwi,   ///< PyTorch's O,I,H,W stored as O,H,W,I (channels last)
};

/// One parameter's place in the flat arenas (parameters, gradients, optimizer moments share
/// offsets).
struct Parameter {
  std::string name;                 ///< PyTorch's, e.g. "conv1.weight"
  std::vector<std::int64_t> shape;  ///< PyTorch's
  ParameterLayout layout = ParameterLayout::as_pytorch;
  std::size_t offset = 0;  ///< in floats
  std::size_t count = 0;   ///< in floats
  bool decay = true;       ///< false: weight decay leaves it alone (biases, norms)
};

/// Images as floats, batch x height x width x channels; one label each. Not owned.
struct Batch {
  std::span<const float> images;
  std::span<const std::int32_t> labels;
};

/// Sums over the samples of one batch: they add up exactly over shards, ranks and steps.
struct BatchResult {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t count = 0;
};

/// Computes shards of one fixed batch size. Owns activations and primitives; used by one thread at
/// a time, and itself uses exactly the number of threads it was made with, whatever OMP_NUM_THREADS
/// says.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Forward and backward of the mean loss of the batch times `*loss_scale` / `shards`. Overwrites
  /// `gradients` (arena layout) and calls `final_up_to(end)` with rising element offsets as they
  /// become final, at last with the size. `loss_scale` is read where the device computes, never by
  /// the host. Padding between parameters gets zeros. The batch must be full. Throws DataError if a
  /// label is not one of the model's classes.
  virtual BatchResult train(const Batch& batch, std::span<const float> parameters,
                            const float* loss_scale, int shards, std::span<float> gradients,
                            const std::function<void(std::size_t)>& final_up_to) = 0;

  /// Forward only. The batch may be incomplete, even empty: only its own samples count.
  virtual BatchResult evaluate(const Batch& batch, std::span<const float> parameters) = 0;
};

/// A fixed layer graph. Parameters lie in the arena in the order in which backward finishes their
/// gradients.
class Model {
 public:
  virtual ~Model() = default;
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual const std::vector<Parameter>& parameters() const = 0;
  /// Floats in an arena, padding between parameters included (every parameter starts on 64 bytes).
  [[nodiscard]] virtual std::size_t arena_size() const = 0;
  /// PyTorch's default initialisation as a pure function of (seed, parameter, element).
  virtual void initialize(std::span<float> parameters, std::uint64_t seed) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Executor> make_executor(int batch_size, Precision precision,
                                                                int threads) const = 0;
};

struct ImageShape {
  int height = 28;
  int width = 28;
  int channels = 1;
};

/// Makes a bundled model by name ("lenet"). Throws DataError naming the known ones.
std::unique_ptr<Model> make_model(const std::string& name, ImageShape shape, int classes);

}  // namespace ddprun::trainer
