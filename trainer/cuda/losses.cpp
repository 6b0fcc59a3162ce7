// The losses.
#include <functional>
#include <memory>

#include "trainer/cuda/kernels/loss_kernels.hpp"
#include "trainer/cuda/launch.hpp"
#include "trainer/cuda/operations.hpp"

namespace ddprun::trainer::cuda {
namespace {

FirstPlace first_of(const Pass& pass) {
  return {.state = pass.state, .shard = pass.shard, .shards = pass.shards, .batch = pass.batch};
}

template <class T>
class SoftmaxCrossEntropyLayer final : public Operation {
 public:
  SoftmaxCrossEntropyLayer(Gpu& gpu, const OperationShape& shape)
      : gpu_(gpu),
        classes_(shape.inputs[0].shape.channels),
        batch_(static_cast<std::size_t>(shape.batch)) {}
  void forward(const Tensors& tensors, const Pass& pass) override {
    launch(gpu_, 1,
           SoftmaxLoss<T>{.logits = input_of<T>(tensors),
                          .labels = pass.labels,
                          .classes = classes_,
                          .rows = static_cast<std::size_t>(pass.count),
                          .first = first_of(pass),
                          .tree = {pass.counters}});
  }
  void backward(const Tensors& tensors, const Pass& pass) override {
    launch_over(gpu_, batch_,
                SoftmaxLossGradient<T>{.logits = input_of<T>(tensors),
                                       .labels = pass.labels,
                                       .classes = classes_,
                                       .rows = static_cast<std::size_t>(pass.count),
                                       .batch = batch_,
                                       .state = pass.state,
                                       .divisor = static_cast<float>(pass.count * pass.shards),
                                       .gradient = input_gradient_of<T>(tensors)});
  }

 private:
  Gpu& gpu_;
  int classes_;
  std::size_t batch_;
};

template <class T>
class BinaryCrossEntropyLayer final : public Operation {
  using Sums = typename MaskLoss<T>::Sums;

 public:
  BinaryCrossEntropyLayer(Gpu& gpu, const OperationShape& shape, double positive_weight)
      : gpu_(gpu),
        batch_(static_cast<std::size_t>(shape.batch)),
        pixels_(shape.inputs[0].shape.count()),
        positive_weight_(static_cast<float>(positive_weight)) {}
  [[nodiscard]] OperationMemory memory() const override {
    return {.workspace = batch_ * sizeof(Sums)};
  }
  void forward(const Tensors& tensors, const Pass& pass) override {
    const auto samples = static_cast<std::size_t>(pass.count);
    auto* const sums = static_cast<Sums*>(tensors.workspace);
    launch(gpu_, static_cast<unsigned>(samples),
           MaskLoss<T>{.loss = {positive_weight_},
                       .logits = input_of<T>(tensors),
                       .masks = pass.masks,
                       .pixels = pixels_,
                       .samples = samples,
                       .sums = sums});
    launch(gpu_, 1,
           CountMasks<T>{.sums = sums,
                         .samples = samples,
                         .pixels = pixels_,
                         .first = first_of(pass),
                         .tree = {pass.counters}});
  }
  void backward(const Tensors& tensors, const Pass& pass) override {
    const std::size_t all = batch_ * pixels_;
    launch_over(
        gpu_, all,
        MaskLossGradient<T>{.positive_weight = positive_weight_,
                            .logits = input_of<T>(tensors),
                            .masks = pass.masks,
                            .count = pixels_ * static_cast<std::size_t>(pass.count),
                            .batch = all,
                            .state = pass.state,
                            .values = static_cast<double>(pixels_) * pass.count * pass.shards,
                            .gradient = input_gradient_of<T>(tensors)});
  }

 private:
  Gpu& gpu_;
  std::size_t batch_;
  std::size_t pixels_;  // of one sample
  float positive_weight_;
};

}  // namespace

std::unique_ptr<Operation> make_softmax_cross_entropy(Gpu& gpu, const OperationShape& shape) {
  return make_typed<SoftmaxCrossEntropyLayer>(shape.storage, std::ref(gpu), shape);
}

std::unique_ptr<Operation> make_binary_cross_entropy(Gpu& gpu, const OperationShape& shape,
                                                     double positive_weight) {
  return make_typed<BinaryCrossEntropyLayer>(shape.storage, std::ref(gpu), shape, positive_weight);
}

}  // namespace ddprun::trainer::cuda
