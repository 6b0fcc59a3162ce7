// Embeddings and attention.
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/compute/attention_limits.hpp"
#include "trainer/cuda/kernels/text_kernels.hpp"
#include "trainer/cuda/launch.hpp"
#include "trainer/cuda/mask_place.hpp"
#include "trainer/cuda/operations.hpp"
#include "trainer/cuda/row_sums.hpp"

namespace ddprun::trainer::cuda {
namespace {

template <class T>
class EmbeddingLayer final : public Operation {
 public:
  EmbeddingLayer(Gpu& gpu, const OperationShape& shape)
      : gpu_(gpu),
        samples_(static_cast<std::size_t>(shape.batch)),
        width_(static_cast<std::size_t>(shape.output.width)),
        channels_(static_cast<std::size_t>(shape.output.channels)),
        counts_(shape.parameter_counts),
        type_gradient_(gpu, samples_ * width_, channels_) {}

  [[nodiscard]] OperationMemory memory() const override {
    return {.workspace = type_gradient_.workspace_bytes()};
  }

  void forward(const Tensors& tensors, const Pass& pass) override {
    const auto table = [&](std::size_t index) {
      return static_cast<const T*>(tensors.parameters[index]);
    };
    const std::size_t count = samples_ * width_ * channels_;
    launch_over(gpu_, count,
                EmbedTokens<T>{texts(pass), table(0), table(1), table(2), output_of<T>(tensors),
                               channels_, count});
  }

  void backward(const Tensors& tensors, const Pass& pass) override {
    const T* const slopes = output_gradient_of<T>(tensors);
    for (std::size_t k = 0; k < 2 && !tensors.accumulates; ++k)
      gpu_.clear(Stream::compute, tensors.parameter_gradients[k], counts_[k] * sizeof(float));
    launch(gpu_, static_cast<unsigned>(samples_ * width_),
           WordGradient<T>{texts(pass), slopes, tensors.parameter_gradients[0], channels_});
    launch_over(
        gpu_, width_ * channels_,
        PositionGradient<T>{texts(pass), slopes, tensors.parameter_gradients[1], channels_});
    type_gradient_.run(TokenTerm<T>{slopes, pass.lengths, width_, channels_},
                       parameter_gradient(tensors, 2), tensors.workspace);
  }

 private:
  [[nodiscard]] Texts texts(const Pass& pass) const {
    return {pass.tokens, pass.lengths, samples_, width_};
  }

  Gpu& gpu_;
  std::size_t samples_, width_, channels_;
  std::vector<std::size_t> counts_;  // of the tables: words, positions, the type
  RowSums type_gradient_;
};

/// Products of all heads of a sample at once, on the projection's memory as it is.
template <class T>
class AttentionLayer final : public Operation {
 public:
  AttentionLayer(Gpu& gpu, const OperationShape& shape, const layer::Attention& kind)
      : gpu_(gpu),
        kind_(kind),
        rate_(dropout_rate(kind.dropout)),
        type_(element_type(shape.storage)),
        trains_(shape.trains),
        samples_(shape.batch),
        width_(shape.inputs[0].shape.width),
        queries_(kind.first_only ? 1 : width_),
        channels_(shape.inputs[0].shape.channels / 3),
        head_(channels_ / kind.heads),
        scale_(1.0F / std::sqrt(static_cast<float>(head_))),
        inputs_(batch_count(shape, shape.inputs[0].shape)) {
    check_attention_mask(kind, shape.batch);
  }

  /// Saved: the soft-max of each row. Workspace: scores, probabilities, and their slopes.
  [[nodiscard]] OperationMemory memory() const override {
    const std::size_t forward = scores_bytes() + values_bytes();
    return {.saved = trains_ ? rows() * sizeof(SoftmaxRow) : 0,
            .workspace = trains_ ? 2 * forward : forward};
  }

  void forward(const Tensors& tensors, const Pass& pass) override {
    const Space space = space_of(tensors);
    const T* const query = input_of<T>(tensors);
    multiply_scores(query, space.scores);
    launch(gpu_, static_cast<unsigned>(rows()),
           AttentionForward<T>{rows_of(pass), space.scores, space.probabilities,
                               trains_ ? saved_of(tensors) : nullptr});
    for (int sample = 0; sample < samples_; ++sample)
      gpu_.multiply(Stream::compute, {.rows = queries_,
                                      .columns = head_,
                                      .depth = width_,
                                      .batch = kind_.heads,
                                      .a = of_rows(space.probabilities, sample),
                                      .b = projected(query + 2 * channels_, sample),
                                      .out = output_of<T>(tensors) + output_at(sample),
                                      .out_type = type_,
                                      .out_stride = channels_,
                                      .out_batch_stride = head_});
  }

  void backward(const Tensors& tensors, const Pass& pass) override {
    const Space space = space_of(tensors);
    const T* const query = input_of<T>(tensors);
    const T* const slopes = output_gradient_of<T>(tensors);
    T* const query_gradient = input_gradient_of<T>(tensors);
    multiply_scores(query, space.scores);
    for (int sample = 0; sample < samples_; ++sample)
      gpu_.multiply(Stream::compute, {.rows = queries_,
                                      .columns = width_,
                                      .depth = head_,
                                      .batch = kind_.heads,
                                      .a = of_output(slopes, sample),
                                      .b = projected(query + 2 * channels_, sample, true),
                                      .out = space.slopes + rows_at(sample),
                                      .out_stride = width_,
                                      .out_batch_stride = std::int64_t{queries_} * width_});
    launch(gpu_, static_cast<unsigned>(rows()),
           AttentionGradient<T>{rows_of(pass), space.scores, space.slopes, saved_of(tensors),
                                space.probabilities, space.score_slopes});
    if (queries_ < width_) gpu_.clear(Stream::compute, query_gradient, inputs_ * sizeof(T));
    for (int sample = 0; sample < samples_; ++sample) {
      const Matrix slope = of_rows(space.score_slopes, sample);
      give(sample, queries_, width_, scale_, slope, projected(query + channels_, sample),
           query_gradient);
      give(sample, width_, queries_, scale_, transposed(slope), projected(query, sample),
           query_gradient + channels_);
      give(sample, width_, queries_, 1, transposed(of_rows(space.probabilities, sample)),
           of_output(slopes, sample), query_gradient + 2 * channels_);
    }
  }

 private:
  struct Space {
    float* scores;
    T* probabilities;
    float* slopes;
    T* score_slopes;
  };

  [[nodiscard]] std::size_t rows() const {
    return static_cast<std::size_t>(samples_) * static_cast<std::size_t>(kind_.heads) *
           static_cast<std::size_t>(queries_);
  }
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  [[nodiscard]] std::size_t scores_bytes() const {
    return aligned(rows() * static_cast<std::size_t>(width_) * sizeof(float));
  }
  [[nodiscard]] std::size_t values_bytes() const {
    return aligned(rows() * static_cast<std::size_t>(width_) * sizeof(T));
  }
  [[nodiscard]] Space space_of(const Tensors& tensors) const {
    auto* const at = static_cast<std::byte*>(tensors.workspace);
    auto* const second = at + scores_bytes() + values_bytes();
    return {reinterpret_cast<float*>(at), reinterpret_cast<T*>(at + scores_bytes()),
            reinterpret_cast<float*>(second), reinterpret_cast<T*>(second + scores_bytes())};
  }
  static SoftmaxRow* saved_of(const Tensors& tensors) {
    return static_cast<SoftmaxRow*>(tensors.saved);
  }
  [[nodiscard]] AttentionRows rows_of(const Pass& pass) const {
    return {.lengths = pass.lengths,
            .heads = static_cast<std::size_t>(kind_.heads),
            .queries = static_cast<std::size_t>(queries_),
            .width = static_cast<std::size_t>(width_),
            .positions = static_cast<std::size_t>(kind_.positions),
            .drops = pass.state != nullptr && kind_.dropout > 0,
            .place = mask_place(rate_, kind_.dropout_number, pass)};
  }

  // Where a sample begins, in values.
  [[nodiscard]] std::int64_t input_at(int sample) const {
    return std::int64_t{sample} * width_ * 3 * channels_;
  }
  [[nodiscard]] std::int64_t output_at(int sample) const {
    return std::int64_t{sample} * queries_ * channels_;
  }
  [[nodiscard]] std::int64_t rows_at(int sample) const {
    return std::int64_t{sample} * kind_.heads * queries_ * width_;
  }

  // A batch of matrices, one of each head.
  [[nodiscard]] Matrix projected(const T* part, int sample, bool is_transposed = false) const {
    return {part + input_at(sample), type_, std::int64_t{3} * channels_, is_transposed, head_};
  }
  [[nodiscard]] Matrix of_output(const T* values, int sample) const {
    return {values + output_at(sample), type_, channels_, false, head_};
  }
  [[nodiscard]] Matrix of_rows(const T* values, int sample) const {
    return {values + rows_at(sample), type_, width_, false, std::int64_t{queries_} * width_};
  }
  static Matrix transposed(Matrix matrix) {
    matrix.transposed = true;
    return matrix;
  }

  void multiply_scores(const T* query, float* scores) const {
    for (int sample = 0; sample < samples_; ++sample)
      gpu_.multiply(Stream::compute, {.rows = queries_,
                                      .columns = width_,
                                      .depth = head_,
                                      .batch = kind_.heads,
                                      .factor = scale_,
                                      .a = projected(query, sample),
                                      .b = projected(query + channels_, sample, true),
                                      .out = scores + rows_at(sample),
                                      .out_stride = width_,
                                      .out_batch_stride = std::int64_t{queries_} * width_});
  }
  /// The gradient of a part of the projection.
  void give(int sample, int count, int depth, float factor, const Matrix& a, const Matrix& b,
            T* part) const {
    gpu_.multiply(Stream::compute, {.rows = count,
                                    .columns = head_,
                                    .depth = depth,
                                    .batch = kind_.heads,
                                    .factor = factor,
                                    .a = a,
                                    .b = b,
                                    .out = part + input_at(sample),
                                    .out_type = type_,
                                    .out_stride = std::int64_t{3} * channels_,
                                    .out_batch_stride = head_});
  }

  Gpu& gpu_;
  layer::Attention kind_;
  DropoutRate rate_;
  ElementType type_;
  bool trains_;
  int samples_;
  int width_;    // tokens of a sample, padding included
  int queries_;  // the same, or 1
  int channels_;
  int head_;  // channels of one head
  float scale_;
  std::size_t inputs_;
};

}  // namespace

std::unique_ptr<Operation> make_embedding(Gpu& gpu, const OperationShape& shape) {
  return make_typed<EmbeddingLayer>(shape.storage, std::ref(gpu), shape);
}

std::unique_ptr<Operation> make_attention(Gpu& gpu, const OperationShape& shape,
                                          const layer::Attention& kind) {
  return make_typed<AttentionLayer>(shape.storage, std::ref(gpu), shape, kind);
}

}  // namespace ddprun::trainer::cuda
