// Multi-head self-attention: oneDNN's matrix products on the projection's memory as it is, without
// a copy, for the tokens that each sample really has. A head's scores are computed for a block of
// queries at a time, and once more in the backward pass, so that they need no memory of the size
// tokens x tokens (T. Dao et al., arXiv 2205.14135). Each head of each sample is one thread's, so
// no bit depends on threads.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>

#include "base/rounded_up.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/host/attention_rows.hpp"
#include "trainer/host/dropout_factors.hpp"
#include "trainer/host/onednn.hpp"
#include "trainer/host/operations.hpp"
#include "trainer/host/thread_count.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kQueries = 128;  // of a block: its scores fit into a core's own cache

/// A matrix in memory, row-major.
struct Matrix {
  float* at;
  std::size_t stride;  // from row to row
};
struct ConstMatrix {
  const float* at;
  std::size_t stride;
};
struct ProductShape {
  std::size_t rows, columns, inner;
};

/// to = scale * a * b, or + that. 't': of the transposed a or b.
void multiply(char transpose_a, char transpose_b, const ProductShape& shape, float scale,
              const ConstMatrix& a, const ConstMatrix& b, bool adds, const Matrix& to) {
  const auto number = [](std::size_t value) { return static_cast<dnnl_dim_t>(value); };
  dnnl::sgemm(transpose_a, transpose_b, number(shape.rows), number(shape.columns),
              number(shape.inner), scale, a.at, number(a.stride), b.at, number(b.stride),
              adds ? 1.0F : 0.0F, to.at, number(to.stride));
}

class AttentionLayer final : public Operation {
 public:
  AttentionLayer(const OperationShape& shape, const layer::Attention& kind)
      : kind_(kind),
        rate_(dropout_rate(kind.dropout)),
        trains_(shape.trains),
        batch_(static_cast<std::size_t>(shape.batch)),
        heads_(static_cast<std::size_t>(kind.heads)),
        width_(static_cast<std::size_t>(shape.inputs[0].shape.width)),
        queries_(static_cast<std::size_t>(shape.output.width)),
        channels_(static_cast<std::size_t>(shape.output.channels)),
        head_(channels_ / heads_),
        stride_(rounded_up(width_, kFactorPiece)),
        scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(head_)))),
        workers_(thread_count()) {
    check_attention_mask(kind, shape.batch);
  }

  /// Saved: what makes probabilities of each row of scores. Workspace: for each worker the scores
  /// of a block, their slopes, and the factors of one row.
  [[nodiscard]] OperationMemory memory() const override {
    return {.saved = batch_ * heads_ * queries_ * sizeof(SoftmaxRow),
            .workspace = static_cast<std::size_t>(workers_) * worker_floats() * sizeof(float)};
  }

  void forward(const Tensors& tensors, const Pass& pass) override {
    for_each_head(tensors, [&](std::size_t pair, float* scores) {
      forward_head(tensors, pass, pair, scores);
    });
  }
  void backward(const Tensors& tensors, const Pass& pass) override {
    for_each_head(tensors, [&](std::size_t pair, float* scores) {
      backward_head(tensors, pass, pair, scores);
    });
  }

 private:
  [[nodiscard]] std::size_t block_floats() const { return std::min(kQueries, queries_) * stride_; }
  [[nodiscard]] std::size_t worker_floats() const {
    return (trains_ ? 2 : 1) * block_floats() + stride_;
  }

  /// Calls work(sample * heads + head, memory for a worker).
  template <class Work>
  void for_each_head(const Tensors& tensors, Work work) const {
    const std::size_t pairs = batch_ * heads_;
    const auto workers = static_cast<std::size_t>(workers_);
    for_each_image(workers_, [&](int number) {
      const auto worker = static_cast<std::size_t>(number);
      float* const own = static_cast<float*>(tensors.workspace) + worker * worker_floats();
      for (std::size_t pair = pairs * worker / workers; pair < pairs * (worker + 1) / workers;
           ++pair)
        work(pair, own);
    });
  }

  /// Offsets of one head's first values: in the projection, of which a row has queries, keys and
  /// values, and in the output.
  [[nodiscard]] std::size_t projected_at(std::size_t pair) const {
    return pair / heads_ * width_ * 3 * channels_ + pair % heads_ * head_;
  }
  [[nodiscard]] std::size_t output_at(std::size_t pair) const {
    return pair / heads_ * queries_ * channels_ + pair % heads_ * head_;
  }
  [[nodiscard]] SoftmaxRow* saved_of(const Tensors& tensors, std::size_t pair) const {
    return static_cast<SoftmaxRow*>(tensors.saved) + pair * queries_;
  }
  [[nodiscard]] bool drops(const Pass& pass) const {
    return pass.state != nullptr && kind_.dropout > 0;
  }

  void fill_row(const Pass& pass, std::size_t pair, std::size_t query, std::size_t count,
                float* factors) const {
    const DropoutMask mask(rate_, {.seed = pass.seed,
                                   .step = steps_done(*pass.state),
                                   .layer = static_cast<std::uint16_t>(kind_.dropout_number),
                                   .shard = static_cast<std::uint16_t>(shard_number(pass.shard))});
    const auto positions = static_cast<std::uint64_t>(kind_.positions);
    fill_factors(mask, (pair * positions + query) * positions, count, factors);
  }

  static void clear_rows(float* from, std::size_t rows, std::size_t stride, std::size_t count) {
    for (std::size_t row = 0; row < rows; ++row) std::fill_n(from + row * stride, count, 0.0F);
  }

  void forward_head(const Tensors& tensors, const Pass& pass, std::size_t pair,
                    float* scores) const {
    const auto length = static_cast<std::size_t>(pass.lengths[pair / heads_]);
    const float* const query = input_of(tensors) + projected_at(pair);
    const float* const key = query + channels_;
    const float* const value = key + channels_;
    float* const output = output_of(tensors) + output_at(pair);
    const std::size_t queries = std::min(length, queries_);
    const std::size_t row = 3 * channels_;
    float* const factors = scores + worker_floats() - stride_;
    for (std::size_t first = 0; first < queries; first += kQueries) {
      const std::size_t count = std::min(kQueries, queries - first);
      multiply('n', 't', {count, length, head_}, scale_, {query + first * row, row}, {key, row},
               false, {scores, stride_});
      softmax_rows({scores, count, length, stride_}, saved_of(tensors, pair) + first);
      for (std::size_t i = 0; drops(pass) && i < count; ++i) {
        fill_row(pass, pair, first + i, length, factors);
        drop_row(length, factors, scores + i * stride_);
      }
      multiply('n', 'n', {count, head_, length}, 1, {scores, stride_}, {value, row}, false,
               {output + first * channels_, channels_});
    }
    clear_rows(output + queries * channels_, queries_ - queries, channels_, head_);
  }

  void backward_head(const Tensors& tensors, const Pass& pass, std::size_t pair,
                     float* scores) const {
    const auto length = static_cast<std::size_t>(pass.lengths[pair / heads_]);
    const std::size_t row = 3 * channels_;
    const float* const query = input_of(tensors) + projected_at(pair);
    const ConstMatrix key{query + channels_, row};
    const ConstMatrix value{query + 2 * channels_, row};
    const float* const slope = output_gradient_of(tensors) + output_at(pair);
    float* const query_gradient = input_gradient_of(tensors) + projected_at(pair);
    const Matrix key_gradient{query_gradient + channels_, row};
    const Matrix value_gradient{query_gradient + 2 * channels_, row};
    const std::size_t queries = std::min(length, queries_);
    float* const slopes = scores + block_floats();
    float* const factors = slopes + block_floats();
    for (std::size_t first = 0; first < queries; first += kQueries) {
      const std::size_t count = std::min(kQueries, queries - first);
      const ConstMatrix queries_here{query + first * row, row};
      const ConstMatrix slope_here{slope + first * channels_, channels_};
      multiply('n', 't', {count, length, head_}, scale_, queries_here, key, false,
               {scores, stride_});
      softmax_rows_again({scores, count, length, stride_}, saved_of(tensors, pair) + first);
      multiply('n', 't', {count, length, head_}, 1, slope_here, value, false, {slopes, stride_});
      for (std::size_t i = 0; i < count; ++i) {
        if (drops(pass)) fill_row(pass, pair, first + i, length, factors);
        softmax_row_backward(length, drops(pass) ? factors : nullptr, scores + i * stride_,
                             slopes + i * stride_);
      }
      const bool adds = first > 0;
      multiply('t', 'n', {length, head_, count}, 1, {scores, stride_}, slope_here, adds,
               value_gradient);
      multiply('t', 'n', {length, head_, count}, scale_, {slopes, stride_}, queries_here, adds,
               key_gradient);
      multiply('n', 'n', {count, head_, length}, scale_, {slopes, stride_}, key, false,
               {query_gradient + first * row, row});
    }
    clear_rows(query_gradient + queries * row, width_ - queries, row, head_);
    for (const Matrix& gradient : {key_gradient, value_gradient})
      clear_rows(gradient.at + length * row, width_ - length, row, head_);
  }

  layer::Attention kind_;
  DropoutRate rate_;
  bool trains_;
  std::size_t batch_, heads_;
  std::size_t width_;    // tokens of a sample, padding included
  std::size_t queries_;  // the same, or 1
  std::size_t channels_;
  std::size_t head_;    // channels of one head
  std::size_t stride_;  // of a row of scores
  float scale_;
  int workers_;
};

/// One linear layer with the weights of three, which lie side by side.
class AttentionProjectionLayer final : public Operation {
 public:
  explicit AttentionProjectionLayer(const OperationShape& shape) {
    OperationShape whole = shape;
    whole.parameter_counts = {3 * shape.parameter_counts[0], 3 * shape.parameter_counts[3]};
    linear_ = make_linear(whole);
  }
  [[nodiscard]] OperationMemory memory() const override { return linear_->memory(); }
  void forward(const Tensors& tensors, const Pass& pass) override {
    const void* parameters[] = {tensors.parameters[0], tensors.parameters[3]};
    Tensors whole = tensors;
    whole.parameters = parameters;
    linear_->forward(whole, pass);
  }
  void backward(const Tensors& tensors, const Pass& pass) override {
    const void* parameters[] = {tensors.parameters[0], tensors.parameters[3]};
    float* gradients[] = {tensors.parameter_gradients[0], tensors.parameter_gradients[3]};
    Tensors whole = tensors;
    whole.parameters = parameters;
    whole.parameter_gradients = gradients;
    linear_->backward(whole, pass);
  }

 private:
  std::unique_ptr<Operation> linear_;
};

}  // namespace

std::unique_ptr<Operation> make_attention(const OperationShape& shape,
                                          const layer::Attention& kind) {
  return std::make_unique<AttentionLayer>(shape, kind);
}
std::unique_ptr<Operation> make_attention_projection(const OperationShape& shape) {
  return std::make_unique<AttentionProjectionLayer>(shape);
}

}  // namespace ddprun::trainer
