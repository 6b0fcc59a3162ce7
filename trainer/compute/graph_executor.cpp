#include "trainer/compute/graph_executor.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/compute/memory_plan.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// "layer conv1"; of one without parameters, and so without a name: "layer 3, after conv1".
std::string layer_text(const Graph& graph, std::size_t index) {
  const Layer& layer = graph.layers()[index];
  if (is_loss(layer.kind)) return "the loss";
  if (!layer.name.empty()) return "layer " + layer.name;
  std::string text = "layer " + std::to_string(index);
  for (std::size_t before = index; before-- > 0;)
    if (const std::string& name = graph.layers()[before].name; !name.empty())
      return text + ", after " + name;
  return text;
}

/// What fails on the device gets the layer's name. `pass`: "forward".
template <class Work>
void in_layer(const Graph& graph, std::size_t index, const char* pass, const Work& work) {
  try {
    work();
  } catch (const DeviceError& error) {
    throw DeviceError(layer_text(graph, index) + ", " + pass + ": " + error.what());
  }
}

}  // namespace

/// A graph for one number of samples and one width of texts: operations and where their tensors
/// lie.
struct GraphExecutor::Prepared {
  struct Node {
    const Layer* layer = nullptr;
    std::unique_ptr<Operation> operation;  // null: the samples
    bool has_backward = false;
    // What Tensors points to.
    std::vector<const void*> inputs, parameters;
    std::vector<void*> input_gradients;
    std::vector<float*> parameter_gradients;
    Tensors tensors;
  };
  Prepared(int samples, Graph at_width) : batch(samples), graph(std::move(at_width)) {}
  int batch;
  Graph graph;
  std::vector<std::vector<GradientUse>> uses;
  std::vector<Node> nodes;
  MemoryPlan plan;
};

GraphExecutor::GraphExecutor(const Graph& graph, Device& device, Settings settings)
    : graph_(graph),
      device_(device),
      settings_(settings),
      storage_(device.storage(settings.precision)) {
  if (settings.batch < 1) throw DataError("a shard needs at least one sample");
  device_.use_threads(settings_.threads);
}

GraphExecutor::~GraphExecutor() = default;

std::size_t GraphExecutor::target_bytes() const {
  const std::size_t one = graph_.target() == Target::mask ? graph_.logits().count() * sizeof(float)
                                                          : sizeof(std::int32_t);
  return static_cast<std::size_t>(settings_.batch) * one;
}

/// Token ids and lengths.
std::size_t GraphExecutor::text_bytes() const {
  const auto positions = static_cast<std::size_t>(graph_.text().positions);
  if (positions == 0) return 0;
  return static_cast<std::size_t>(settings_.batch) * (positions + 1) * sizeof(std::int32_t);
}

std::size_t GraphExecutor::bytes_needed(int train_batch, int width) {
  const Key training{.batch = train_batch, .width = width, .trains = true};
  const Key evaluation{.batch = settings_.batch, .width = width, .trains = false};
  return std::max(prepared(training).plan.bytes, prepared(evaluation).plan.bytes) + target_bytes() +
         text_bytes();
}

std::byte* GraphExecutor::at(std::size_t offset) const {
  return offset == LayerPlaces::kNowhere ? nullptr : memory_.data() + offset;
}

GraphExecutor::Prepared& GraphExecutor::prepared(Key key) {
  std::unique_ptr<Prepared>& slot = prepared_[key];
  if (slot) return *slot;
  slot = std::make_unique<Prepared>(key.batch, graph_.at_length(key.width));
  slot->uses = gradient_uses(graph_);
  const Graph& graph = slot->graph;
  slot->nodes.resize(graph.layers().size());
  std::vector<OperationMemory> memories(slot->nodes.size());
  for (std::size_t i = 0; i < slot->nodes.size(); ++i) {
    Prepared::Node& node = slot->nodes[i];
    node.layer = &graph.layers()[i];
    if (node.layer->inputs.empty()) continue;
    OperationShape shape{.batch = key.batch,
                         .inputs = {},
                         .output = node.layer->output,
                         .parameter_counts = {},
                         .storage = storage_,
                         .trains = key.trains};
    for (std::size_t k = 0; k < node.layer->inputs.size(); ++k) {
      const GradientUse use = key.trains ? slot->uses[i][k] : GradientUse::none;
      shape.inputs.push_back({graph.layer(node.layer->inputs[k]).output, use});
      node.has_backward = node.has_backward || use != GradientUse::none;
    }
    for (const int index : node.layer->parameters)
      shape.parameter_counts.push_back(parameter(index).count);
    node.has_backward = key.trains && (node.has_backward || !node.layer->parameters.empty());
    in_layer(graph, i, "at the start", [&] {
      node.operation = device_.make_operation(*node.layer, shape);
      memories[i] = node.operation->memory();
    });
  }
  slot->plan = plan_memory(graph, key.batch, bytes_of(storage_), key.trains, memories);
  return *slot;
}

/// The memory may have grown since the last pass, and the weights may be others.
void GraphExecutor::point_to(std::size_t layer, Prepared& prepared) {
  Prepared::Node& node = prepared.nodes[layer];
  const std::vector<LayerPlaces>& places = prepared.plan.layers;
  node.inputs.clear();
  node.input_gradients.clear();
  node.parameters.clear();
  for (std::size_t k = 0; k < node.layer->inputs.size(); ++k) {
    const LayerPlaces& input = places[static_cast<std::size_t>(node.layer->inputs[k])];
    node.inputs.push_back(at(input.output));
    const bool wanted = node.has_backward && prepared.uses[layer][k] != GradientUse::none;
    node.input_gradients.push_back(wanted ? at(input.gradient) : nullptr);
  }
  for (const int index : node.layer->parameters) {
    const std::size_t offset = parameter(index).offset;
    node.parameters.push_back(reads_master(node.layer->kind)
                                  ? static_cast<const void*>(weights_.master + offset)
                                  : static_cast<const std::byte*>(weights_.stored) +
                                        offset * bytes_of(storage_));
  }
  node.tensors = {.inputs = node.inputs,
                  .parameters = node.parameters,
                  .output = at(places[layer].output),
                  .saved = at(places[layer].saved),
                  .workspace = at(prepared.plan.workspace),
                  .output_gradient = at(places[layer].gradient),
                  .input_gradients = node.input_gradients,
                  .parameter_gradients = {}};
}

void GraphExecutor::forward(const Batch& batch, const Weights& weights, Key key) {
  check(batch);
  device_.use_threads(settings_.threads);
  current_ = &prepared(key);
  if (current_->plan.bytes > memory_.bytes()) {
    memory_ = {};  // first: nothing of the last pass is needed, and both may not fit
    memory_ = device_.allocate(current_->plan.bytes);
  }
  if (targets_.bytes() == 0) targets_ = device_.allocate(target_bytes());
  if (texts_.bytes() == 0) texts_ = device_.allocate(text_bytes());
  weights_ = weights;
  for (std::size_t i = 0; i < current_->nodes.size(); ++i) point_to(i, *current_);

  pass_.count = static_cast<int>(count_of(batch));
  copy_targets(batch);
  if (graph_.text().positions > 0) {
    copy_texts(batch);
  } else {
    copy_images(batch);
  }
  for (std::size_t i = 0; i < current_->nodes.size(); ++i) {
    Prepared::Node& node = current_->nodes[i];
    if (!node.operation || is_loss(node.layer->kind)) continue;
    in_layer(graph_, i, "forward", [&] { node.operation->forward(node.tensors, pass_); });
  }
}

void GraphExecutor::copy_targets(const Batch& batch) {
  if (graph_.target() == Target::mask) {
    pass_.masks = targets_.as<float>().data();
    device_.copy_in(std::as_bytes(batch.masks), targets_.data());
  } else {
    pass_.labels = targets_.as<std::int32_t>().data();
    device_.copy_in(std::as_bytes(batch.labels), targets_.data());
  }
}

void GraphExecutor::copy_images(const Batch& batch) {
  const LayerPlaces& images = current_->plan.layers.front();
  const std::size_t value_bytes = bytes_of(storage_);
  const std::size_t filled = batch.images.size() * value_bytes;
  const std::size_t whole = static_cast<std::size_t>(current_->batch) *
                            graph_.layers().front().output.count() * value_bytes;
  device_.copy_in(storage_, batch.images, at(images.output));
  device_.clear({at(images.output) + filled, whole - filled});
}

void GraphExecutor::copy_texts(const Batch& batch) {
  const auto samples = static_cast<std::size_t>(settings_.batch);
  const std::span<std::int32_t> lengths = texts_.as<std::int32_t>().first(samples);
  const std::span<std::int32_t> tokens = texts_.as<std::int32_t>().subspan(samples);
  device_.copy_in(std::as_bytes(batch.lengths), lengths.data());
  device_.clear(std::as_writable_bytes(lengths.subspan(batch.lengths.size())));
  device_.copy_in(std::as_bytes(batch.tokens), tokens.data());
  pass_.tokens = tokens.data();
  pass_.lengths = lengths.data();
}

void GraphExecutor::train(const Batch& batch, const Weights& weights, const ShardId& shard) {
  pass_.state = shard.state;
  pass_.seed = shard.seed;
  pass_.shard = shard.shard;
  pass_.shards = shard.shards;
  pass_.batch = settings_.batch;
  forward(batch, weights,
          {.batch = static_cast<int>(count_of(batch)), .width = batch.width, .trains = true});
}

void GraphExecutor::evaluate(const Batch& batch, const Weights& weights, int turn) {
  pass_ = {};
  pass_.shard = turn;
  pass_.batch = settings_.batch;
  forward(batch, weights, {.batch = settings_.batch, .width = batch.width, .trains = false});
}

void GraphExecutor::loss(Counters& counters) {
  pass_.counters = &counters;
  Prepared::Node& node = current_->nodes.back();
  in_layer(graph_, current_->nodes.size() - 1, "forward",
           [&] { node.operation->forward(node.tensors, pass_); });
}

void GraphExecutor::backward(std::span<float> gradients,
                             const std::function<void(std::size_t)>& final_up_to) {
  check_arena(gradients.size());
  device_.use_threads(settings_.threads);
  for (std::size_t i = current_->nodes.size(); i-- > 0;) {
    Prepared::Node& node = current_->nodes[i];
    if (!node.has_backward) continue;
    node.parameter_gradients.clear();
    for (const int index : node.layer->parameters)
      node.parameter_gradients.push_back(gradients.data() + parameter(index).offset);
    node.tensors.parameter_gradients = node.parameter_gradients;
    in_layer(graph_, i, "backward", [&] { node.operation->backward(node.tensors, pass_); });
    if (node.layer->parameters.empty()) continue;
    const std::size_t end = graph_.final_up_to(*node.layer);
    clear_padding(*node.layer, end, gradients);
    final_up_to(end);
  }
}

void GraphExecutor::clear_padding(const Layer& layer, std::size_t end, std::span<float> gradients) {
  for (std::size_t k = 0; k < layer.parameters.size(); ++k) {
    const Parameter& one = parameter(layer.parameters[k]);
    const bool is_last = k + 1 == layer.parameters.size();
    const std::size_t next = is_last ? end : parameter(layer.parameters[k + 1]).offset;
    const std::size_t begin = one.offset + one.count;
    if (begin < next) device_.clear(std::as_writable_bytes(gradients.subspan(begin, next - begin)));
  }
}

const Parameter& GraphExecutor::parameter(int index) const {
  return graph_.parameters()[static_cast<std::size_t>(index)];
}

void GraphExecutor::check_arena(std::size_t size) const {
  if (size != graph_.arena_size()) throw std::logic_error("arena of another model");
}

std::size_t GraphExecutor::count_of(const Batch& batch) const {
  if (graph_.text().positions > 0) return batch.lengths.size();
  return batch.images.size() / graph_.layers().front().output.count();
}

void GraphExecutor::check(const Batch& batch) const {
  const std::size_t count = count_of(batch);
  const bool has_masks = graph_.target() == Target::mask;
  if (count > static_cast<std::size_t>(settings_.batch) ||
      batch.images.size() != count * graph_.layers().front().output.count() ||
      batch.labels.size() != (has_masks ? 0 : count) ||
      batch.masks.size() != (has_masks ? count * graph_.logits().count() : 0)) {
    throw std::logic_error("batch of another size than the executor's");
  }
  check_labels(batch.labels);
  check_texts(batch);
  for (const float value : batch.masks) {
    if (!(value >= 0 && value <= 1))
      throw DataError("a mask in the data has a value beyond 0 and 1");
  }
}

void GraphExecutor::check_texts(const Batch& batch) const {
  const int positions = graph_.text().positions;
  if (positions == 0) return;
  if (batch.width < 1 || batch.width > positions || batch.width % kLengthUnit != 0 ||
      batch.tokens.size() != batch.lengths.size() * static_cast<std::size_t>(batch.width))
    throw std::logic_error("texts of another width than the batch's");
  std::span<const std::int32_t> row = batch.tokens;
  for (const std::int32_t length : batch.lengths) {
    if (length < 1 || length > batch.width)
      throw std::logic_error("a length beyond the width of the batch");
    for (const std::int32_t token : row.first(static_cast<std::size_t>(length)))
      if (token < 0 || token >= graph_.text().vocabulary)
        throw DataError("token " + std::to_string(token) +
                        " in the data, but the model has tokens 0 to " +
                        std::to_string(graph_.text().vocabulary - 1));
    row = row.subspan(static_cast<std::size_t>(batch.width));
  }
}

void GraphExecutor::check_labels(std::span<const std::int32_t> labels) const {
  for (const std::int32_t label : labels) {
    if (label < 0 || label >= graph_.classes()) {
      throw DataError("label " + std::to_string(label) +
                      " in the data, but the model has classes 0 to " +
                      std::to_string(graph_.classes() - 1) + "; check the label file");
    }
  }
}

}  // namespace ddprun::trainer
