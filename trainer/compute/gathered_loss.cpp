#include "trainer/compute/gathered_loss.hpp"

#include <array>

#include "base/assert.hpp"
#include "trainer/compute/batch.hpp"

namespace ddprun::trainer {

GatheredLoss::GatheredLoss(const Graph& graph, Device& device, Settings settings)
    : graph_(graph),
      device_(device),
      settings_(settings),
      storage_(device.storage(settings.precision)) {
  const Layer& loss = graph.layers().back();
  operation_ = device.make_operation(loss, {.batch = settings.batch,
                                            .inputs = {{graph.logits(), GradientUse::overwrite}},
                                            .output = loss.output,
                                            .parameter_counts = {},
                                            .storage = storage_});
  const OperationMemory memory = operation_->memory();
  const std::size_t all = static_cast<std::size_t>(settings.pieces) * piece_bytes();
  logits_ = device.allocate(all);
  gradients_ = device.allocate(all);
  targets_ = device.allocate(static_cast<std::size_t>(settings.batch) * target_bytes(graph));
  shard_ = device.allocate(sizeof(std::int32_t));
  DDPRUN_ASSERT(memory.workspace == 0 && memory.saved == 0, "bytes() leaves them out");
}

std::size_t GatheredLoss::piece_bytes() const {
  return static_cast<std::size_t>(settings_.batch) * graph_.logits().count() * bytes_of(storage_);
}

std::size_t GatheredLoss::bytes(const Graph& graph, Settings settings, Storage storage) {
  const auto batch = static_cast<std::size_t>(settings.batch);
  return 2 * static_cast<std::size_t>(settings.pieces) * batch * graph.logits().count() *
             bytes_of(storage) +
         batch * target_bytes(graph) + sizeof(std::int32_t);
}

std::span<std::byte> GatheredLoss::logits(int piece, int samples) {
  return logits_.as<std::byte>().subspan(
      static_cast<std::size_t>(piece) * piece_bytes(),
      static_cast<std::size_t>(samples) * graph_.logits().count() * bytes_of(storage_));
}

std::span<const std::byte> GatheredLoss::gradient(int piece, int samples) const {
  return gradients_.as<const std::byte>().subspan(
      static_cast<std::size_t>(piece) * piece_bytes(),
      static_cast<std::size_t>(samples) * graph_.logits().count() * bytes_of(storage_));
}

void GatheredLoss::compute(int piece, const Batch& batch, const ShardId& shard,
                           Counters& counters) {
  Pass pass{.counters = &counters,
            .shard = shard_.as<std::int32_t>().data(),
            .state = shard.state,
            .seed = shard.seed,
            .shards = shard.shards,
            .batch = settings_.batch};
  pass.count = static_cast<int>(sample_count(graph_, batch));
  const std::int32_t number = shard.shard;
  Inputs inputs{.values = {{std::as_bytes(std::span(&number, 1)), shard_.as<std::byte>()}},
                .images = {}};
  add_targets(graph_, batch, targets_, pass, inputs);
  device_.feed(inputs);

  const std::array<const void*, 1> inputs_of{logits(piece, pass.count).data()};
  const std::array<void*, 1> gradients{gradients_.data() +
                                       static_cast<std::size_t>(piece) * piece_bytes()};
  const Tensors tensors{.inputs = inputs_of,
                        .parameters = {},
                        .saved = nullptr,
                        .workspace = nullptr,
                        .input_gradients = gradients,
                        .parameter_gradients = {}};
  operation_->forward(tensors, pass);
  operation_->backward(tensors, pass);
}

}  // namespace ddprun::trainer
