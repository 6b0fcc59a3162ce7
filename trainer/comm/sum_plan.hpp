// In which order the local sums of all ranks are added up, so that the result is the shard tree's
// whatever the number of ranks. Pure: the arenas are pointers that somebody else owns.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/comm/shard_tree.hpp"

namespace ddprun::trainer {

/// One local node of one rank.
struct PlanInput {
  int rank = 0;
  int slot = 0;  ///< index into local_nodes() of that rank
  friend bool operator==(const PlanInput&, const PlanInput&) = default;
};

/// An operand or a result of one addition.
struct PlanTerm {
  enum class Kind { input, scratch, result } kind = Kind::input;
  int index = 0;  ///< into inputs(), or number of the scratch block
};

struct PlanStep {
  PlanTerm left;
  PlanTerm right;
  PlanTerm sum;  ///< scratch or, in the last step, result
};

/// The upper part of the shard tree, from the ranks' local nodes to the root, as a list of
/// additions.
class SumPlan {
 public:
  SumPlan(int shards, int world_size);

  [[nodiscard]] const std::vector<PlanInput>& inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<PlanStep>& steps() const { return steps_; }
  [[nodiscard]] int scratch_blocks() const { return scratch_blocks_; }

  /// Floats that are summed at a time, so that partial sums stay in the first-level cache.
  static constexpr std::size_t kBlockFloats = 1024;

  /// Sums elements begin .. end of all inputs in tree order into every output. `inputs[k]` is the
  /// arena of inputs()[k]; an output may be one of the inputs (a rank's slot 0 is both). `scratch`
  /// holds (scratch_blocks() + 1) * kBlockFloats floats. With a single input the outputs other than
  /// it become copies.
  void sum(std::span<const float* const> inputs, std::span<float* const> outputs, std::size_t begin,
           std::size_t end, std::span<float> scratch) const;

 private:
  struct Local {
    TreeNode node;
    int input;
  };
  PlanTerm plan(TreeNode node, const std::vector<Local>& locals, int depth, bool root);

  std::vector<PlanInput> inputs_;
  std::vector<PlanStep> steps_;
  int scratch_blocks_ = 0;
};

}  // namespace ddprun::trainer
