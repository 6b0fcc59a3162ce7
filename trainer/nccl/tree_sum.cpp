#include "trainer/nccl/tree_sum.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "trainer/cuda/launch.hpp"

namespace ddprun::trainer::nccl {
namespace {

using cuda::TreeAddition;
using cuda::TreeInput;

int place_of(PlanTerm term, int scratch_blocks) {
  switch (term.kind) {
    case PlanTerm::Kind::input:
      return ~term.index;
    case PlanTerm::Kind::scratch:
      return term.index;
    case PlanTerm::Kind::result:
      break;
  }
  return scratch_blocks;
}

template <class Value>
DeviceMemory copied(Device& device, const std::vector<Value>& values) {
  DeviceMemory memory = device.allocate(values.size() * sizeof(Value));
  device.copy_in(std::as_bytes(std::span(values)), memory.data());
  return memory;
}

}  // namespace

std::size_t TreeSum::received_bytes(const CommOptions& options) {
  const SumPlan plan(options.shards, options.world_size);
  const auto foreign =
      std::count_if(plan.inputs().begin(), plan.inputs().end(),
                    [&](const PlanInput& input) { return input.rank != options.rank; });
  return static_cast<std::size_t>(foreign) *
         Slices::step_of(options.arena_floats, options.world_size) * sizeof(float);
}

TreeSum::TreeSum(Device& device, const CommOptions& options, std::span<const float* const> arenas)
    : rank_(options.rank),
      plan_(options.shards, options.world_size),
      arenas_(arenas.begin(), arenas.end()),
      parts_(static_cast<std::size_t>(options.world_size)) {
  DDPRUN_ASSERT(plan_.scratch_blocks() < cuda::SumInTree::kPlacesMax, "the tree is not that deep");
  const std::size_t floats = Slices::step_of(options.arena_floats, options.world_size);
  received_ = device.allocate(received_bytes(options));
  float* next = received_.as<float>().data();
  for (const PlanInput& input : plan_.inputs()) {
    if (input.rank == rank_) continue;
    parts_[static_cast<std::size_t>(input.rank)].push_back(next);
    next += floats;
  }
  std::vector<TreeAddition> additions;
  for (const PlanStep& step : plan_.steps()) {
    additions.push_back({place_of(step.left, plan_.scratch_blocks()),
                         place_of(step.right, plan_.scratch_blocks()),
                         place_of(step.sum, plan_.scratch_blocks())});
  }
  additions_ = copied(device, additions);
  std::vector<TreeInput> inputs;
  for (const PlanInput& input : plan_.inputs()) {
    const auto slot = static_cast<std::size_t>(input.slot);
    const bool is_own = input.rank == rank_;
    inputs.push_back(
        {is_own ? arenas_[slot] : parts_[static_cast<std::size_t>(input.rank)][slot], is_own});
  }
  inputs_ = copied(device, inputs);
}

void TreeSum::exchange_parts(GroupCalls& calls, const Slices& slices, int peer) const {
  const Range theirs = slices.of(peer);
  for (const float* const arena : arenas_) calls.send(arena + theirs.begin, theirs, peer);
  for (float* const part : parts_[static_cast<std::size_t>(peer)])
    calls.receive(part, slices.of(rank_), peer);
}

void TreeSum::sum(cuda::Gpu& gpu, float* arena, Range slice) const {
  const std::size_t count = slice.end - slice.begin;
  cuda::launch_over(gpu, count,
                    cuda::SumInTree{.inputs = inputs_.as<TreeInput>().data(),
                                    .additions = additions_.as<TreeAddition>().data(),
                                    .addition_count = static_cast<int>(plan_.steps().size()),
                                    .offset = slice.begin,
                                    .out = arena + slice.begin,
                                    .count = count},
                    cuda::Stream::communication);
}

}  // namespace ddprun::trainer::nccl
