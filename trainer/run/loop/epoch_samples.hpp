// The training samples of one worker: their order in the epoch under way, and what reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "trainer/comm/shard_tree.hpp"
#include "trainer/data/sample_reader.hpp"
#include "trainer/data/sampler.hpp"
#include "trainer/run/plan/plan.hpp"

namespace ddprun::trainer {

class EpochSamples {
 public:
  /// The set outlives it. `run`: the shards of this worker.
  EpochSamples(const DataSet& set, const TrainPlan& plan, std::uint64_t seed, ShardRun run,
               const SampleReader::Settings& reading);

  /// Makes the order of `epoch` the current one, unless it is; of images that are decoded in each
  /// epoch, those from step `block` of it on are decoded from now on.
  void select(std::int64_t epoch, std::int64_t block);

  [[nodiscard]] const EpochOrder& order() const { return order_; }
  [[nodiscard]] SampleReader& reader() { return reader_; }
  /// Where the reader expects the samples of step `block`, not before the one that was selected.
  [[nodiscard]] std::size_t first_place(std::int64_t block) const;

 private:
  [[nodiscard]] ShardSamples mine() const;

  SampleReader reader_;
  EpochOrder order_;
  ShardRun run_;
  std::optional<std::int64_t> epoch_;
  std::int64_t first_block_ = 0;
};

}  // namespace ddprun::trainer
