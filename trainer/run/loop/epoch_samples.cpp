#include "trainer/run/loop/epoch_samples.hpp"

namespace ddprun::trainer {

EpochSamples::EpochSamples(const DataSet& set, const TrainPlan& plan, std::uint64_t seed,
                           ShardRun run, const SampleReader::Settings& reading)
    : reader_(set, reading), order_(set.size(), plan.shards, plan.batch, seed), run_(run) {}

ShardSamples EpochSamples::mine() const {
  return {order_, run_.first, run_.count, static_cast<std::size_t>(first_block_)};
}

void EpochSamples::select(std::int64_t epoch, std::int64_t block) {
  if (epoch_ == epoch) return;
  order_.select(static_cast<std::uint64_t>(epoch));
  epoch_ = epoch;
  first_block_ = block;
  const ShardSamples samples = mine();
  reader_.expect(samples.count(), [&](std::size_t place) { return samples.sample(place); });
}

std::size_t EpochSamples::first_place(std::int64_t block) const {
  return mine().place(static_cast<std::size_t>(block));
}

}  // namespace ddprun::trainer
