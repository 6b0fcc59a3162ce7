// Between token ids and values: embeddings, and the first token of each sample. Gradients of
// embeddings are added token by token in the order of the batch, by one thread: one table row may
// be many tokens'.
#include <algorithm>
#include <cstddef>

#include "trainer/host/operations.hpp"
#include "trainer/host/vector_clones.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kFirstPosition = 2;  // RoBERTa's; its padding has 1

template <class T>
DDPRUN_TEMPLATE_CLONES void add_rows(const T* word, const T* type, const T* position,
                                     std::size_t channels, T* to) {
  for (std::size_t c = 0; c < channels; ++c)
    store(to[c], load(word[c]) + load(type[c]) + load(position[c]));
}

template <class T>
DDPRUN_TEMPLATE_CLONES void add_to_rows(const T* gradient, std::size_t channels, float* word,
                                        float* position, float* type) {
  for (std::size_t c = 0; c < channels; ++c) word[c] += load(gradient[c]);
  for (std::size_t c = 0; c < channels; ++c) position[c] += load(gradient[c]);
  for (std::size_t c = 0; c < channels; ++c) type[c] += load(gradient[c]);
}

template <class T>
class EmbeddingLayer final : public Operation {
 public:
  explicit EmbeddingLayer(const OperationShape& shape)
      : batch_(static_cast<std::size_t>(shape.batch)),
        width_(static_cast<std::size_t>(shape.output.width)),
        channels_(static_cast<std::size_t>(shape.output.channels)),
        counts_(shape.parameter_counts) {}

  void forward(const Tensors& tensors, const Pass& pass) override {
    const auto table = [&](std::size_t index) {
      return static_cast<const T*>(tensors.parameters[index]);
    };
    T* to = output_of<T>(tensors);
    for (std::size_t sample = 0; sample < batch_; ++sample) {
      const std::size_t length = length_of(pass, sample);
      for (std::size_t place = 0; place < length; ++place, to += channels_)
        add_rows(table(0) + token_of(pass, sample, place) * channels_, table(2),
                 table(1) + (place + kFirstPosition) * channels_, channels_, to);
      const std::size_t padding = (width_ - length) * channels_;
      std::fill_n(to, padding, T{});
      to += padding;
    }
  }

  void backward(const Tensors& tensors, const Pass& pass) override {
    for (std::size_t k = 0; k < counts_.size(); ++k)
      std::fill_n(tensors.parameter_gradients[k], counts_[k], 0.0F);
    const auto table = [&](std::size_t index) { return tensors.parameter_gradients[index]; };
    for (std::size_t sample = 0; sample < batch_; ++sample) {
      const T* from = output_gradient_of<T>(tensors) + sample * width_ * channels_;
      for (std::size_t place = 0; place < length_of(pass, sample); ++place, from += channels_)
        add_to_rows(from, channels_, table(0) + token_of(pass, sample, place) * channels_,
                    table(1) + (place + kFirstPosition) * channels_, table(2));
    }
  }

 private:
  static std::size_t length_of(const Pass& pass, std::size_t sample) {
    return static_cast<std::size_t>(pass.lengths[sample]);
  }
  [[nodiscard]] std::size_t token_of(const Pass& pass, std::size_t sample,
                                     std::size_t place) const {
    return static_cast<std::size_t>(pass.tokens[sample * width_ + place]);
  }

  std::size_t batch_, width_, channels_;
  std::vector<std::size_t> counts_;  // of the tables: words, positions, the type
};

template <class T>
class FirstTokenLayer final : public Operation {
 public:
  explicit FirstTokenLayer(const OperationShape& shape)
      : batch_(static_cast<std::size_t>(shape.batch)),
        sample_(shape.inputs[0].shape.count()),
        channels_(static_cast<std::size_t>(shape.output.channels)) {}

  void forward(const Tensors& tensors, const Pass& /*pass*/) override {
    for (std::size_t sample = 0; sample < batch_; ++sample)
      std::copy_n(input_of<T>(tensors) + sample * sample_, channels_,
                  output_of<T>(tensors) + sample * channels_);
  }
  void backward(const Tensors& tensors, const Pass& /*pass*/) override {
    for (std::size_t sample = 0; sample < batch_; ++sample) {
      T* const gradient = input_gradient_of<T>(tensors) + sample * sample_;
      std::copy_n(output_gradient_of<T>(tensors) + sample * channels_, channels_, gradient);
      std::fill_n(gradient + channels_, sample_ - channels_, T{});
    }
  }

 private:
  std::size_t batch_;
  std::size_t sample_;  // values of one sample of the input
  std::size_t channels_;
};

}  // namespace

std::unique_ptr<Operation> make_embedding(const OperationShape& shape) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<EmbeddingLayer<T>>(shape);
  });
}
std::unique_ptr<Operation> make_first_token(const OperationShape& shape) {
  return for_storage(shape.storage, [&]<class T>(T) -> std::unique_ptr<Operation> {
    return std::make_unique<FirstTokenLayer<T>>(shape);
  });
}

}  // namespace ddprun::trainer
