#include "trainer/data/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "base/assert.hpp"

namespace ddprun::trainer {

void permute_as_torch(std::uint64_t seed, std::span<std::uint32_t> order) {
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  std::iota(order.begin(), order.end(), 0U);
  const std::size_t count = order.size();
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const std::size_t offset = random() % (count - i);
    std::swap(order[i], order[i + offset]);
  }
}

std::size_t steps_per_epoch(std::size_t samples, int shards, int batch) {
  const auto shard_count = static_cast<std::size_t>(shards);
  const auto batch_size = static_cast<std::size_t>(batch);
  const std::size_t per_shard = (samples + shard_count - 1) / shard_count;
  return (per_shard + batch_size - 1) / batch_size;
}

EpochOrder::EpochOrder(std::size_t samples, int shards, int batch, std::uint64_t seed)
    : order_(samples),
      shards_(static_cast<std::size_t>(shards)),
      batch_(static_cast<std::size_t>(batch)),
      per_shard_((samples + shards_ - 1) / shards_),
      seed_(seed) {
  DDPRUN_ASSERT(samples > 0 && shards > 0 && batch > 0, "an epoch of at least one sample");
  select(0);
}

void EpochOrder::select(std::uint64_t epoch) { permute_as_torch(seed_ + epoch, order_); }

std::size_t EpochOrder::steps() const { return (per_shard_ + batch_ - 1) / batch_; }

int EpochOrder::batch_of(std::size_t step) const {
  return static_cast<int>(std::min(batch_, per_shard_ - step * batch_));
}

std::uint32_t EpochOrder::sample(std::size_t step, int shard, int item) const {
  const std::size_t entry =
      (step * batch_ + static_cast<std::size_t>(item)) * shards_ + static_cast<std::size_t>(shard);
  // The padding repeats the list from its start, as often as needed where there are more shards
  // than samples.
  return order_[entry % order_.size()];
}

ShardSamples::ShardSamples(const EpochOrder& order, int first_shard, int shards,
                           std::size_t first_step)
    : order_(order),
      first_shard_(first_shard),
      shards_(static_cast<std::size_t>(shards)),
      first_step_(first_step),
      of_step_(shards_ * static_cast<std::size_t>(order.batch_of(first_step))) {
  DDPRUN_ASSERT(first_step < order.steps(), "a step of the epoch");
}

std::size_t ShardSamples::count() const {
  const std::size_t last = order_.steps() - 1;
  return place(last) + shards_ * static_cast<std::size_t>(order_.batch_of(last));
}

std::uint32_t ShardSamples::sample(std::size_t place) const {
  const std::size_t step = first_step_ + place / of_step_;
  const std::size_t within = place % of_step_;
  const auto batch = static_cast<std::size_t>(order_.batch_of(step));
  return order_.sample(step, first_shard_ + static_cast<int>(within / batch),
                       static_cast<int>(within % batch));
}

}  // namespace ddprun::trainer
