// Bilinear enlarging in our own loops.
#include <cstddef>

#include "trainer/compute/layer_ops.hpp"
#include "trainer/host/operations.hpp"
#include "trainer/host/thread_count.hpp"
#include "trainer/host/vector_clones.hpp"

namespace ddprun::trainer {
namespace {

template <class T>
class UpsampleLayer final : public Operation {
 public:
  explicit UpsampleLayer(const OperationShape& shape)
      : batch_(shape.batch),
        height_(shape.inputs[0].shape.height),
        width_(shape.inputs[0].shape.width),
        channels_(static_cast<std::size_t>(shape.output.channels)),
        row_(static_cast<std::size_t>(width_) * channels_),
        image_(static_cast<std::size_t>(height_) * row_) {}

  /// One row of the output for each image: rows that are mixed, but not yet columns.
  [[nodiscard]] OperationMemory memory() const override {
    return {.workspace =
                (static_cast<std::size_t>(batch_) * 2 * row_ * sizeof(float) + 63) / 64 * 64};
  }
  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    for_each_image(batch_, [&](int image) {
      const auto i = static_cast<std::size_t>(image);
      enlarge(input_of<T>(tensors) + i * image_, output_of<T>(tensors) + i * 4 * image_,
              scratch(tensors, i));
    });
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    for_each_image(batch_, [&](int image) {
      const auto i = static_cast<std::size_t>(image);
      gather(output_gradient_of<T>(tensors) + i * 4 * image_,
             input_gradient_of<T>(tensors) + i * image_, scratch(tensors, i));
    });
  }

 private:
  [[nodiscard]] float* scratch(const Tensors& tensors, std::size_t image) const {
    return static_cast<float*>(tensors.workspace) + image * 2 * row_;
  }
  [[nodiscard]] std::size_t pixel(int x) const { return static_cast<std::size_t>(x) * channels_; }

  DDPRUN_VECTOR_CLONES
  void enlarge(const T* input, T* output, float* __restrict mixed) const {
    for (int y = 0; y < 2 * height_; ++y) {
      const UpsampleSource rows = upsample_source(y, height_);
      const T* const near = input + static_cast<std::size_t>(rows.near) * row_;
      const T* const far = input + static_cast<std::size_t>(rows.far) * row_;
      for (std::size_t i = 0; i < row_; ++i) mixed[i] = upsample_mix(load(near[i]), load(far[i]));
      T* const row = output + static_cast<std::size_t>(y) * 2 * row_;
      for (int x = 0; x < 2 * width_; ++x) {
        const UpsampleSource columns = upsample_source(x, width_);
        const float* const left = mixed + pixel(columns.near);
        const float* const right = mixed + pixel(columns.far);
        T* __restrict const to = row + pixel(x);
        for (std::size_t c = 0; c < channels_; ++c) store(to[c], upsample_mix(left[c], right[c]));
      }
    }
  }

  DDPRUN_VECTOR_CLONES
  void gather(const T* slopes, T* gradients, float* __restrict mixed) const {
    for (int y = 0; y < height_; ++y) {
      const UpsampleReaders rows = upsample_readers(y, height_);
      const T* from[4];
      for (int k = 0; k < 4; ++k)
        from[k] = slopes + static_cast<std::size_t>(rows.pixel[k]) * 2 * row_;
      for (std::size_t i = 0; i < 2 * row_; ++i)
        mixed[i] =
            upsample_gather(load(from[0][i]), load(from[1][i]), load(from[2][i]), load(from[3][i]));
      T* const row = gradients + static_cast<std::size_t>(y) * row_;
      for (int x = 0; x < width_; ++x) {
        const UpsampleReaders columns = upsample_readers(x, width_);
        const float* const a = mixed + pixel(columns.pixel[0]);
        const float* const b = mixed + pixel(columns.pixel[1]);
        const float* const c = mixed + pixel(columns.pixel[2]);
        const float* const d = mixed + pixel(columns.pixel[3]);
        T* __restrict const to = row + pixel(x);
        for (std::size_t k = 0; k < channels_; ++k)
          store(to[k], upsample_gather(a[k], b[k], c[k], d[k]));
      }
    }
  }

  int batch_, height_, width_;  // of the input
  std::size_t channels_;
  std::size_t row_, image_;  // values of the input
};

}  // namespace

std::unique_ptr<Operation> make_upsample(const OperationShape& shape) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<UpsampleLayer<T>>(shape);
  });
}

}  // namespace ddprun::trainer
