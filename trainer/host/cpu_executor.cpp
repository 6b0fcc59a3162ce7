#include "trainer/host/cpu_executor.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "trainer/compute/buffer.hpp"
#include "trainer/error.hpp"
#include "trainer/host/host_loops.hpp"
#include "trainer/host/operation.hpp"
#include "trainer/host/thread_count.hpp"

namespace ddprun::trainer {
namespace {

/// One layer at work. A ReLU that is its input's only reader works in place: `output` is then its
/// input's.
struct Node {
  const Layer* layer = nullptr;
  std::size_t count = 0;  ///< floats of the batch's output
  std::unique_ptr<Operation> operation;
  FloatBuffer output_memory, gradient_memory, weight_shadow, bias_shadow;
  float* output = nullptr;
  float* gradient = nullptr;  ///< null: no parameters lie before this layer
  bool in_place = false;
};

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const Graph& graph, int batch_size, Precision precision, int threads)
      : graph_(graph), batch_size_(batch_size), precision_(precision), threads_(threads) {
    if (batch_size < 1) throw DataError("a shard needs at least one sample");
    const ThreadCount fixed(threads_);
    make_nodes();
    for (Node& node : nodes_) make_operation(node);
    scratch_ = FloatBuffer(scratch_size_);
  }

  BatchResult train(const Batch& batch, std::span<const float> parameters, const float* loss_scale,
                    int shards, std::span<float> gradients,
                    const std::function<void(std::size_t)>& final_up_to) override {
    const ThreadCount fixed(threads_);
    check_arena(gradients.size());
    if (batch.labels.size() != static_cast<std::size_t>(batch_size_)) {
      throw std::logic_error("a training batch must be full");
    }
    forward(batch, parameters);
    // Divided here, not after the backward: gradients then add up over the shards.
    const float factor = *loss_scale / static_cast<float>(batch_size_ * shards);
    const BatchResult result = loss(batch, nodes_.back().gradient, factor);
    backward(parameters, gradients, final_up_to);
    return result;
  }

  BatchResult evaluate(const Batch& batch, std::span<const float> parameters) override {
    const ThreadCount fixed(threads_);
    forward(batch, parameters);
    return loss(batch, nullptr, 0);
  }

 private:
  void make_nodes() {
    const std::vector<Layer>& layers = graph_.layers();
    std::vector<int> readers(layers.size(), 0);
    for (const Layer& layer : layers) {
      for (const int input : layer.inputs) ++readers[static_cast<std::size_t>(input)];
    }
    nodes_.resize(layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      Node& node = nodes_[i];
      node.layer = &layers[i];
      node.count = static_cast<std::size_t>(batch_size_) * layers[i].output.count();
      bool trains = node.layer->weight >= 0;
      for (const int input : layers[i].inputs) {
        trains = trains || nodes_[static_cast<std::size_t>(input)].gradient != nullptr;
      }
      if (readers[i] > 1) scratch_size_ = std::max(scratch_size_, node.count);
      // The input layer's memory belongs to the images, so nothing overwrites it.
      const std::size_t first =
          layers[i].inputs.empty() ? 0 : static_cast<std::size_t>(layers[i].inputs[0]);
      node.in_place = layers[i].kind == LayerKind::relu && first != 0 && readers[first] == 1;
      if (node.in_place) {
        node.output = nodes_[first].output;
        node.gradient = nodes_[first].gradient;
        continue;
      }
      node.output_memory = FloatBuffer(node.count);
      node.output = node.output_memory.data();
      if (trains) {
        node.gradient_memory = FloatBuffer(node.count);
        node.gradient = node.gradient_memory.data();
      }
    }
  }

  void make_operation(Node& node) {
    const Layer& layer = *node.layer;
    if (layer.kind == LayerKind::input) return;
    const Node& input = nodes_[static_cast<std::size_t>(layer.inputs[0])];
    const OperationShape shape{batch_size_, input.layer->output, layer.output, layer.window};
    switch (layer.kind) {
      case LayerKind::input:
        break;
      case LayerKind::convolution:
        node.operation = make_convolution(shape, input.gradient != nullptr);
        break;
      case LayerKind::linear:
        node.operation = make_linear(shape, input.gradient != nullptr);
        break;
      case LayerKind::relu:
        node.operation = make_relu(shape);
        break;
      case LayerKind::max_pool:
        node.operation = make_max_pool(shape);
        break;
      case LayerKind::average_pool:
        node.operation = make_average_pool(shape);
        break;
      case LayerKind::flatten:
        node.operation = make_flatten(shape);
        break;
      case LayerKind::add:
        node.operation = make_add(shape);
        break;
    }
    if (layer.weight >= 0 && precision_ != Precision::fp32) {
      node.weight_shadow = FloatBuffer(parameter(layer.weight).count);
      node.bias_shadow = FloatBuffer(parameter(layer.bias).count);
    }
  }

  void forward(const Batch& batch, std::span<const float> parameters) {
    check_arena(parameters.size());
    check_batch(batch);
    Node& images = nodes_.front();
    const std::span<float> stored{images.output, images.count};
    round_to_storage(precision_, batch.images, stored.first(batch.images.size()));
    // Rows without a sample (an incomplete evaluation batch) are computed from zeros and not looked
    // at.
    std::fill(stored.begin() + static_cast<std::ptrdiff_t>(batch.images.size()), stored.end(),
              0.0F);
    for (Node& node : nodes_) {
      if (!node.operation) continue;
      if (precision_ != Precision::fp32) cast_shadow(node, parameters);
      node.operation->forward(memory_of(node, parameters));
      if (!is_exact(node)) round_to_storage(precision_, {node.output, node.count});
    }
  }

  BatchResult loss(const Batch& batch, float* gradient, float factor) {
    const Node& logits = nodes_.back();
    const std::span<float> slopes =
        gradient == nullptr ? std::span<float>{} : std::span<float>{gradient, logits.count};
    const BatchResult result = softmax_cross_entropy(
        {logits.output, logits.count}, graph_.classes(), batch.labels, factor, slopes);
    round_to_storage(precision_, slopes);
    return result;
  }

  void backward(std::span<const float> parameters, std::span<float> gradients,
                const std::function<void(std::size_t)>& final_up_to) {
    written_.assign(nodes_.size(), false);
    for (std::size_t i = nodes_.size(); i-- > 1;) {
      Node& node = nodes_[i];
      if (node.gradient == nullptr) continue;
      backward_of(node, parameters, gradients);
      if (node.layer->weight < 0) continue;
      const std::size_t end = graph_.final_up_to(*node.layer);
      clear_padding(parameter(node.layer->weight), parameter(node.layer->bias).offset, gradients);
      clear_padding(parameter(node.layer->bias), end, gradients);
      final_up_to(end);
    }
  }

  void backward_of(Node& node, std::span<const float> parameters, std::span<float> gradients) {
    const Layer& layer = *node.layer;
    LayerMemory memory = memory_of(node, parameters);
    memory.output_gradient = node.gradient;
    if (layer.weight >= 0) {
      memory.weight_gradient = gradients.data() + parameter(layer.weight).offset;
      memory.bias_gradient = gradients.data() + parameter(layer.bias).offset;
    }
    // An activation that several layers read gets the sum of their gradients: all but the first
    // come through scratch memory, so one at a time.
    for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
      const auto from = static_cast<std::size_t>(layer.inputs[k]);
      Node& input = nodes_[from];
      LayerMemory one = memory;
      one.input_gradient = {};
      const bool first = !written_[from];
      if (input.gradient != nullptr) {
        one.input_gradient[k] = first ? input.gradient : scratch_.data();
      } else if (k > 0 || layer.weight < 0) {
        continue;
      }
      node.operation->backward(one);
      if (input.gradient == nullptr) continue;
      written_[from] = true;
      const std::span<float> sum{input.gradient, input.count};
      if (!first) add(sum, scratch_.span().first(input.count), sum);
      if (!is_exact(node) || !first) round_to_storage(precision_, sum);
    }
  }

  LayerMemory memory_of(const Node& node, std::span<const float> parameters) {
    LayerMemory memory;
    for (std::size_t k = 0; k < node.layer->inputs.size(); ++k) {
      memory.input[k] = nodes_[static_cast<std::size_t>(node.layer->inputs[k])].output;
    }
    memory.output = node.output;
    if (node.layer->weight >= 0) {
      const bool shadow = precision_ != Precision::fp32;
      memory.weight = shadow ? node.weight_shadow.data()
                             : parameters.data() + parameter(node.layer->weight).offset;
      memory.bias =
          shadow ? node.bias_shadow.data() : parameters.data() + parameter(node.layer->bias).offset;
    }
    return memory;
  }

  void cast_shadow(Node& node, std::span<const float> parameters) const {
    if (node.layer->weight < 0) return;
    const auto cast = [&](const Parameter& from, FloatBuffer& to) {
      round_to_storage(precision_, parameters.subspan(from.offset, from.count), to.span());
    };
    cast(parameter(node.layer->weight), node.weight_shadow);
    cast(parameter(node.layer->bias), node.bias_shadow);
  }

  /// Layers that only pick or move values: what was representable stays so.
  static bool is_exact(const Node& node) {
    return node.layer->kind == LayerKind::relu || node.layer->kind == LayerKind::flatten;
  }

  static void clear_padding(const Parameter& before, std::size_t end, std::span<float> gradients) {
    const std::size_t begin = before.offset + before.count;
    std::fill_n(gradients.data() + begin, end - begin, 0.0F);
  }

  const Parameter& parameter(int index) const {
    return graph_.parameters()[static_cast<std::size_t>(index)];
  }

  void check_arena(std::size_t size) const {
    if (size != graph_.arena_size()) throw std::logic_error("arena of another model");
  }

  void check_batch(const Batch& batch) const {
    const std::size_t samples = batch.labels.size();
    if (samples > static_cast<std::size_t>(batch_size_) ||
        batch.images.size() != samples * graph_.layers().front().output.count()) {
      throw std::logic_error("batch of another size than the executor's");
    }
    for (const std::int32_t label : batch.labels) {
      if (label < 0 || label >= graph_.classes()) {
        throw DataError("label " + std::to_string(label) +
                        " in the data, but the model has classes 0 to " +
                        std::to_string(graph_.classes() - 1) + "; check the label file");
      }
    }
  }

  const Graph& graph_;
  int batch_size_;
  Precision precision_;
  int threads_;
  std::vector<Node> nodes_;
  std::vector<bool> written_;
  FloatBuffer scratch_;
  std::size_t scratch_size_ = 0;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_executor(const Graph& graph, int batch_size, Precision precision,
                                            int threads) {
  return std::make_unique<CpuExecutor>(graph, batch_size, precision, threads);
}

}  // namespace ddprun::trainer
