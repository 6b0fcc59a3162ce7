// Embeddings and attention.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "base/rounded_up.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/cuda/kernels/text_kernels.hpp"
#include "trainer/cuda/launch.hpp"
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
    return {.workspace = std::max(type_gradient_.workspace_bytes(),
                                  2 * samples_ * width_ * sizeof(std::int32_t))};
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
    const auto places = static_cast<unsigned>(samples_ * width_);
    auto* const memory = static_cast<std::int32_t*>(tensors.workspace);
    const TokenLinks links{memory, memory + places};
    launch(gpu_, places, LinkTokens{texts(pass), links});
    launch(gpu_, places,
           WordGradient<T>{texts(pass), links, slopes, tensors.parameter_gradients[0], channels_});
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

/// Queries, keys and values are first copied, so that the matrices of all heads of all samples lie
/// one after another: a product of all of them is one call, however many samples there are. All are
/// as wide as the shard; behind a sample's length probabilities and slopes are 0.
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
        scale_(1.0F / std::sqrt(static_cast<float>(head_))) {
    check_attention_mask(kind, shape.batch);
  }

  /// Saved: the soft-max of each row. Workspace: queries, keys, values, scores, probabilities; in
  /// training also slopes of the output, the scores and the probabilities.
  [[nodiscard]] OperationMemory memory() const override {
    const std::size_t forward = 3 * part_bytes() + scores_bytes() + values_bytes();
    const std::size_t slopes = part_bytes() + scores_bytes() + values_bytes();
    return {.saved = trains_ ? rows() * sizeof(SoftmaxRow) : 0,
            .workspace = trains_ ? forward + slopes : forward};
  }

  void forward(const Tensors& tensors, const Pass& pass) override {
    const Space space = space_of(tensors);
    split(input_of<T>(tensors), width_, {space.queries, space.keys, space.values});
    multiply_scores(space);
    launch(gpu_, row_blocks(),
           AttentionForward<T>{rows_of(pass), space.scores, space.probabilities,
                               trains_ ? saved_of(tensors) : nullptr});
    T* const outputs = space.queries;  // which nothing reads any more
    multiply_to_head(queries_, width_, 1, of_rows(space.probabilities), of_head(space.values),
                     outputs);
    merge({outputs}, queries_, queries_, output_of<T>(tensors));
  }

  void backward(const Tensors& tensors, const Pass& pass) override {
    const Space space = space_of(tensors);
    split(input_of<T>(tensors), width_, {space.queries, space.keys, space.values});
    split(output_gradient_of<T>(tensors), queries_, {space.output_slopes});
    multiply_scores(space);
    multiply_to_rows(1, of_head(space.output_slopes, queries_), of_head(space.values),
                     space.slopes);
    launch(gpu_, row_blocks(),
           AttentionGradient<T>{rows_of(pass), space.scores, space.slopes, saved_of(tensors),
                                space.probabilities, space.score_slopes});
    // Each result overwrites a part that nothing reads any more.
    T* const value_slopes = space.values;
    multiply_to_head(width_, queries_, 1, transposed(of_rows(space.probabilities)),
                     of_head(space.output_slopes, queries_), value_slopes);
    T* const key_slopes = space.output_slopes;
    multiply_to_head(width_, queries_, scale_, transposed(of_rows(space.score_slopes)),
                     of_head(space.queries), key_slopes);
    T* const query_slopes = space.queries;
    multiply_to_head(queries_, width_, scale_, of_rows(space.score_slopes), of_head(space.keys),
                     query_slopes);
    merge({query_slopes, key_slopes, value_slopes}, width_, queries_,
          input_gradient_of<T>(tensors));
  }

 private:
  /// Queries, keys, values and output_slopes are samples x heads x width x head; the others are
  /// samples x heads x queries x width. The slopes are there in training.
  struct Space {
    T* queries;
    T* keys;
    T* values;
    float* scores;
    T* probabilities;
    T* output_slopes;
    float* slopes;
    T* score_slopes;
  };

  [[nodiscard]] std::size_t pairs() const {
    return static_cast<std::size_t>(samples_) * static_cast<std::size_t>(kind_.heads);
  }
  [[nodiscard]] std::size_t rows() const { return pairs() * static_cast<std::size_t>(queries_); }
  [[nodiscard]] unsigned row_blocks() const {
    return static_cast<unsigned>((rows() + kBlockRows - 1) / kBlockRows);
  }
  [[nodiscard]] std::size_t part_bytes() const {
    return rounded_up(
        pairs() * static_cast<std::size_t>(width_) * static_cast<std::size_t>(head_) * sizeof(T),
        kAllocationAlignment);
  }
  [[nodiscard]] std::size_t scores_bytes() const {
    return rounded_up(rows() * static_cast<std::size_t>(width_) * sizeof(float),
                      kAllocationAlignment);
  }
  [[nodiscard]] std::size_t values_bytes() const {
    return rounded_up(rows() * static_cast<std::size_t>(width_) * sizeof(T), kAllocationAlignment);
  }
  [[nodiscard]] Space space_of(const Tensors& tensors) const {
    auto* at = static_cast<std::byte*>(tensors.workspace);
    const auto next = [&]<class Value>(Value*& part, std::size_t bytes) {
      part = reinterpret_cast<Value*>(at);
      at += bytes;
    };
    Space space{};
    for (T** part : {&space.queries, &space.keys, &space.values}) next(*part, part_bytes());
    next(space.scores, scores_bytes());
    next(space.probabilities, values_bytes());
    next(space.output_slopes, part_bytes());
    next(space.slopes, scores_bytes());
    next(space.score_slopes, values_bytes());
    return space;
  }
  static SoftmaxRow* saved_of(const Tensors& tensors) {
    return static_cast<SoftmaxRow*>(tensors.saved);
  }
  [[nodiscard]] AttentionRows rows_of(const Pass& pass) const {
    return {.lengths = pass.lengths,
            .heads = static_cast<std::size_t>(kind_.heads),
            .queries = static_cast<std::size_t>(queries_),
            .width = static_cast<std::size_t>(width_),
            .count = rows(),
            .positions = static_cast<std::size_t>(kind_.positions),
            .drops = pass.state != nullptr && kind_.dropout > 0,
            .place = mask_place(rate_, kind_.dropout_number, pass)};
  }

  // ---- between tokens x channels and heads x tokens ----

  [[nodiscard]] HeadShape head_shape(int width) const {
    return {.heads = static_cast<unsigned>(kind_.heads),
            .width = static_cast<unsigned>(width),
            .channels = static_cast<unsigned>(channels_),
            .head = static_cast<unsigned>(head_)};
  }
  /// `from`: samples x width x parts x channels.
  void split(const T* from, int width, std::initializer_list<T*> parts) const {
    SplitHeads<T> kernel{.shape = head_shape(width), .from = from, .parts = {}};
    for (T* part : parts) kernel.parts[kernel.part_count++] = part;
    launch(gpu_, static_cast<unsigned>(samples_ * width), kernel);
  }
  /// The other way round. The first part has `first_rows` tokens a head; the others are 0.
  void merge(std::initializer_list<const T*> parts, int width, int first_rows, T* to) const {
    MergeHeads<T> kernel{.shape = head_shape(width),
                         .parts = {},
                         .first_rows = static_cast<unsigned>(first_rows),
                         .to = to};
    for (const T* part : parts) kernel.parts[kernel.part_count++] = part;
    launch(gpu_, static_cast<unsigned>(samples_ * width), kernel);
  }

  // ---- products of all heads of all samples ----

  [[nodiscard]] Matrix of_head(const T* part, int width) const {
    return {part, type_, head_, false, std::int64_t{width} * head_};
  }
  [[nodiscard]] Matrix of_head(const T* part) const { return of_head(part, width_); }
  [[nodiscard]] Matrix of_rows(const T* values) const {
    return {values, type_, width_, false, std::int64_t{queries_} * width_};
  }
  static Matrix transposed(Matrix matrix) {
    matrix.transposed = true;
    return matrix;
  }

  void multiply_scores(const Space& space) const {
    multiply_to_rows(scale_, of_head(space.queries), of_head(space.keys), space.scores);
  }
  /// a b', a row for each query.
  void multiply_to_rows(float factor, const Matrix& a, const Matrix& b, float* out) const {
    gpu_.multiply(Stream::compute, {.rows = queries_,
                                    .columns = width_,
                                    .depth = head_,
                                    .batch = static_cast<int>(pairs()),
                                    .factor = factor,
                                    .a = a,
                                    .b = transposed(b),
                                    .out = out,
                                    .out_stride = width_,
                                    .out_batch_stride = std::int64_t{queries_} * width_});
  }
  /// a b, of `count` tokens a head.
  void multiply_to_head(int count, int depth, float factor, const Matrix& a, const Matrix& b,
                        T* out) const {
    gpu_.multiply(Stream::compute, {.rows = count,
                                    .columns = head_,
                                    .depth = depth,
                                    .batch = static_cast<int>(pairs()),
                                    .factor = factor,
                                    .a = a,
                                    .b = b,
                                    .out = out,
                                    .out_type = type_,
                                    .out_stride = head_,
                                    .out_batch_stride = std::int64_t{count} * head_});
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
