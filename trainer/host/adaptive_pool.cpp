// Adaptive average pooling in our own loops.
#include <algorithm>
#include <cstddef>

#include "trainer/host/operations.hpp"
#include "trainer/host/vector_clones.hpp"

namespace ddprun::trainer {
namespace {

/// The input pixels of one direction that an output pixel is the mean of: PyTorch's rule. Windows
/// overlap where the sizes do not divide; there may be fewer inputs than outputs.
struct Span {
  std::size_t begin, end;
};
Span span_of(int index, int outputs, int inputs) {
  return {static_cast<std::size_t>(index * inputs / outputs),
          static_cast<std::size_t>(((index + 1) * inputs + outputs - 1) / outputs)};
}

class AdaptivePoolLayer final : public Operation {
 public:
  explicit AdaptivePoolLayer(const OperationShape& shape)
      : batch_(static_cast<std::size_t>(shape.batch)),
        in_(shape.inputs[0].shape),
        out_(shape.output),
        channels_(static_cast<std::size_t>(in_.channels)) {}

  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    average(input_of(tensors), output_of(tensors));
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    spread(output_gradient_of(tensors), input_gradient_of(tensors));
  }

 private:
  DDPRUN_VECTOR_CLONES
  void average(const float* input, float* output) const {
    for_each_window([&](std::size_t to, std::size_t from, float share, bool first)
                        DDPRUN_VECTOR_INLINE {
                          float* const sum = output + to;
                          const float* const value = input + from;
                          if (first) std::fill_n(sum, channels_, 0.0F);
                          for (std::size_t c = 0; c < channels_; ++c) sum[c] += value[c] * share;
                        });
  }

  DDPRUN_VECTOR_CLONES
  void spread(const float* slopes, float* gradients) const {
    std::fill_n(gradients, batch_ * in_.count(), 0.0F);
    for_each_window([&](std::size_t to, std::size_t from, float share, bool) DDPRUN_VECTOR_INLINE {
      const float* const slope = slopes + to;
      float* const gradient = gradients + from;
      for (std::size_t c = 0; c < channels_; ++c) gradient[c] += slope[c] * share;
    });
  }

  /// Calls visit(output element, input element, 1 / pixels, first of the window) for the first
  /// channel of each pair of pixels.
  template <class Visit>
  DDPRUN_VECTOR_INLINE inline void for_each_window(Visit visit) const {
    for (std::size_t image = 0; image < batch_; ++image) {
      for (int y = 0; y < out_.height; ++y) {
        for (int x = 0; x < out_.width; ++x) {
          const Span rows = span_of(y, out_.height, in_.height);
          const Span columns = span_of(x, out_.width, in_.width);
          const float share =
              1.0F / static_cast<float>((rows.end - rows.begin) * (columns.end - columns.begin));
          const std::size_t to =
              image * out_.count() + static_cast<std::size_t>(y * out_.width + x) * channels_;
          bool first = true;
          for (std::size_t row = rows.begin; row < rows.end; ++row) {
            for (std::size_t column = columns.begin; column < columns.end; ++column) {
              const std::size_t pixel = row * static_cast<std::size_t>(in_.width) + column;
              visit(to, image * in_.count() + pixel * channels_, share, first);
              first = false;
            }
          }
        }
      }
    }
  }

  std::size_t batch_;
  ActivationShape in_, out_;
  std::size_t channels_;
};

}  // namespace

std::unique_ptr<Operation> make_adaptive_average_pool(const OperationShape& shape) {
  return std::make_unique<AdaptivePoolLayer>(shape);
}

}  // namespace ddprun::trainer
