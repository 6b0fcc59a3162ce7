#include "trainer/compute/batch_targets.hpp"

namespace ddprun::trainer {

std::size_t target_bytes(const Graph& graph) {
  return graph.target() == Target::mask ? graph.logits().count() * sizeof(float)
                                        : sizeof(std::int32_t);
}

void add_targets(const Graph& graph, const Batch& batch, const DeviceMemory& room, Pass& pass,
                 Inputs& inputs) {
  const auto add = [&](std::span<const std::byte> from) {
    inputs.values.push_back({from, room.as<std::byte>().first(from.size())});
  };
  if (graph.target() == Target::mask) {
    pass.masks = room.as<float>().data();
    const InputImages masks = batch.mask_images();
    if (masks.bytes() == 0) return add(std::as_bytes(batch.masks));
    const std::size_t floats = static_cast<std::size_t>(pass.count) * graph.logits().count();
    inputs.masks = masks;
    inputs.masks.to = std::as_writable_bytes(room.as<float>().first(floats));
  } else {
    pass.labels = room.as<std::int32_t>().data();
    add(std::as_bytes(batch.labels));
  }
}

}  // namespace ddprun::trainer
