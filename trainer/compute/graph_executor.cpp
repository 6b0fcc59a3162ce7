#include "trainer/compute/graph_executor.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/compute/batch.hpp"
#include "trainer/compute/graph_executor_parts.hpp"
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

GraphExecutor::GraphExecutor(const Graph& graph, Device& device, Settings settings)
    : graph_(graph),
      device_(device),
      settings_(settings),
      storage_(device.storage(settings.precision)),
      inputs_(graph, device, settings.batch, storage_) {
  if (settings.batch < 1) throw DataError("a shard needs at least one sample");
  device_.use_threads(settings_.threads);
}

GraphExecutor::~GraphExecutor() = default;

std::size_t GraphExecutor::bytes_needed(int train_batch, int width) {
  const Key training{.batch = train_batch, .width = width, .trains = true};
  const Key evaluation{.batch = settings_.batch, .width = width, .trains = false};
  return std::max(prepared(training).plan.bytes, prepared(evaluation).plan.bytes) +
         inputs_.bytes_needed();
}

std::byte* GraphExecutor::at(std::size_t offset) const {
  return offset == LayerPlaces::kNowhere ? nullptr : memory_.data() + offset;
}

GraphExecutor::Prepared& GraphExecutor::prepared(Key key) {
  // oneDNN would divide by 0.
  if (key.batch < 1) throw std::logic_error("a pass over a batch without samples");
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

void GraphExecutor::begin_pass(const Batch& batch, const Weights& weights, Key key, int shard) {
  check_batch(graph_, batch, settings_.batch);
  device_.use_threads(settings_.threads);
  current_ = &prepared(key);
  if (current_->plan.bytes > memory_.bytes()) {
    memory_ = {};       // first: nothing of the last pass is needed, and both may not fit
    repeated_.clear();  // they have the old addresses
    memory_ = device_.allocate(current_->plan.bytes);
  }
  weights_ = weights;
  for (std::size_t i = 0; i < current_->nodes.size(); ++i) point_to(i, *current_);
  feed(batch, shard);
}

void GraphExecutor::feed(const Batch& batch, int shard) {
  const std::size_t image_bytes = static_cast<std::size_t>(current_->batch) *
                                  graph_.layers().front().output.count() * bytes_of(storage_);
  const Inputs inputs =
      inputs_.fill(batch, shard, {at(current_->plan.layers.front().output), image_bytes}, pass_);
  in_layer(graph_, 0, "inputs", [&] { device_.feed(inputs); });
}

void GraphExecutor::forward() {
  for (std::size_t i = 0; i < current_->nodes.size(); ++i) {
    Prepared::Node& node = current_->nodes[i];
    if (!node.operation || is_loss(node.layer->kind)) continue;
    in_layer(graph_, i, "forward", [&] { node.operation->forward(node.tensors, pass_); });
  }
}

void GraphExecutor::begin(const Batch& batch, const Weights& weights, const ShardId& shard) {
  pass_.state = shard.state;
  pass_.seed = shard.seed;
  pass_.shards = shard.shards;
  pass_.batch = settings_.batch;
  begin_pass(batch, weights, key_of(batch), shard.shard);
}

GraphExecutor::Key GraphExecutor::key_of(const Batch& batch) const {
  return {
      .batch = static_cast<int>(sample_count(graph_, batch)), .width = batch.width, .trains = true};
}

void GraphExecutor::train(const Batch& batch, const Weights& weights, const ShardId& shard) {
  begin(batch, weights, shard);
  forward();
}

void GraphExecutor::evaluate(const Batch& batch, const Weights& weights, int turn) {
  begin_evaluation(batch, weights, turn);
  forward();
}

void GraphExecutor::begin_evaluation(const Batch& batch, const Weights& weights, int turn) {
  pass_ = {};
  pass_.batch = settings_.batch;
  begin_pass(batch, weights, {.batch = settings_.batch, .width = batch.width, .trains = false},
             turn);
}

void GraphExecutor::loss(Counters& counters) {
  pass_.counters = &counters;
  Prepared::Node& node = current_->nodes.back();
  in_layer(graph_, current_->nodes.size() - 1, "forward",
           [&] { node.operation->forward(node.tensors, pass_); });
}

void GraphExecutor::copy_logits(std::span<float> to) const {
  copy_floats_out(device_, storage_, current_->nodes.back().inputs.front(), to);
}

std::span<std::byte> GraphExecutor::of_logits(std::size_t offset) const {
  const std::size_t count = static_cast<std::size_t>(current_->batch) * graph_.logits().count();
  return {at(offset), count * bytes_of(storage_)};
}

std::span<const std::byte> GraphExecutor::logits() const {
  return of_logits(current_->logits_places().output);
}

std::span<std::byte> GraphExecutor::logits_gradient() {
  return of_logits(current_->logits_places().gradient);
}

void GraphExecutor::backward(const GradientArena& arena,
                             const std::function<void(std::size_t)>& final_up_to) {
  check_arena(arena, graph_.arena_size(), device_.accumulates_gradients());
  device_.use_threads(settings_.threads);
  backward(0, current_->nodes.size(), arena, final_up_to);
}

void GraphExecutor::backward_from_logits(const GradientArena& arena,
                                         const std::function<void(std::size_t)>& final_up_to) {
  check_arena(arena, graph_.arena_size(), device_.accumulates_gradients());
  device_.use_threads(settings_.threads);
  backward(0, current_->nodes.size() - 1, arena, final_up_to);
}

void GraphExecutor::backward(std::size_t first, std::size_t end, const GradientArena& arena,
                             const std::function<void(std::size_t)>& final_up_to) {
  for (std::size_t i = end; i-- > first;) {
    Prepared::Node& node = current_->nodes[i];
    if (!node.has_backward) continue;
    node.parameter_gradients.clear();
    for (const int index : node.layer->parameters)
      node.parameter_gradients.push_back(arena.floats.data() + parameter(index).offset);
    node.tensors.parameter_gradients = node.parameter_gradients;
    node.tensors.accumulates = arena.accumulates;
    in_layer(graph_, i, "backward", [&] { node.operation->backward(node.tensors, pass_); });
    if (node.layer->parameters.empty()) continue;
    const std::size_t final = graph_.final_up_to(*node.layer);
    if (!arena.accumulates) clear_padding(*node.layer, final, arena.floats);
    final_up_to(final);
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

}  // namespace ddprun::trainer
