#include "trainer/comm/sum_plan.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "trainer/host/float_sum.hpp"

namespace ddprun::trainer {

SumPlan::SumPlan(int shards, int world_size) {
  std::vector<Local> locals;
  for (int rank = 0; rank < world_size; ++rank) {
    const std::vector<TreeNode> nodes = local_nodes(shards, shard_run(shards, world_size, rank));
    for (std::size_t slot = 0; slot < nodes.size(); ++slot) {
      locals.push_back({nodes[slot], static_cast<int>(inputs_.size())});
      inputs_.push_back({rank, static_cast<int>(slot)});
    }
  }
  plan({0, shards}, locals, 0, true);
}

PlanTerm SumPlan::plan(TreeNode node, const std::vector<Local>& locals, int depth, bool root) {
  for (const Local& local : locals) {
    if (local.node == node) return {PlanTerm::Kind::input, local.input};
  }
  const int left = left_count(node.count);
  PlanStep step;
  // The left sum waits in scratch block `depth` while the right one is made in deeper blocks.
  step.left = plan({node.first, left}, locals, depth, false);
  const bool left_waits = step.left.kind == PlanTerm::Kind::scratch;
  step.right =
      plan({node.first + left, node.count - left}, locals, left_waits ? depth + 1 : depth, false);
  step.sum = root ? PlanTerm{PlanTerm::Kind::result, 0} : PlanTerm{PlanTerm::Kind::scratch, depth};
  if (!root) scratch_blocks_ = std::max(scratch_blocks_, depth + 1);
  steps_.push_back(step);
  return step.sum;
}

void SumPlan::sum(std::span<const float* const> inputs, std::span<float* const> outputs,
                  std::size_t begin, std::size_t end, std::span<float> scratch) const {
  DDPRUN_ASSERT(scratch.size() >= (static_cast<std::size_t>(scratch_blocks_) + 1) * kBlockFloats,
                "scratch fits");
  if (steps_.empty()) {
    for (float* output : outputs) {
      if (output != inputs[0])
        std::memcpy(output + begin, inputs[0] + begin, (end - begin) * sizeof(float));
    }
    return;
  }
  // Every input's block is read before the last step writes that block of the outputs, so an output
  // may be an input.
  for (std::size_t at = begin; at < end; at += kBlockFloats) {
    const std::size_t count = std::min(kBlockFloats, end - at);
    const auto block = [&](PlanTerm term) {
      return scratch.data() + static_cast<std::size_t>(term.index) * kBlockFloats;
    };
    const auto operand = [&](PlanTerm term) -> const float* {
      return term.kind == PlanTerm::Kind::input ? inputs[static_cast<std::size_t>(term.index)] + at
                                                : block(term);
    };
    for (const PlanStep& step : steps_) {
      const float* left = operand(step.left);
      const float* right = operand(step.right);
      if (step.sum.kind == PlanTerm::Kind::scratch) {
        add_to(block(step.sum), left, right, count);
      } else if (outputs.size() == 1) {
        add_to(outputs[0] + at, left, right, count);
      } else if (outputs.size() == 2) {
        add_to_both(outputs[0] + at, outputs[1] + at, left, right, count);
      } else {
        float* whole = scratch.data() + static_cast<std::size_t>(scratch_blocks_) * kBlockFloats;
        add_to(whole, left, right, count);
        for (float* output : outputs) std::memcpy(output + at, whole, count * sizeof(float));
      }
    }
  }
}

}  // namespace ddprun::trainer
