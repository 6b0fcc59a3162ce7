// What the lanes of one worker compute of a data set.
#include "trainer/run/shard_computer.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "trainer/compute/buffer.hpp"
#include "trainer/data/shapes.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kBatch = 8;

/// The sums over all ranks, each with `lanes` lanes.
MetricSums evaluate_with(int world_size, int lanes, const DataSet& set) {
  const auto model = make_model("lenet", set.shape(), set.classes());
  FloatBuffer parameters(model->arena_size());
  model->initialize(parameters.span(), 1);
  // As after training: small losses have more bits than the sums keep.
  for (float& parameter : parameters.span()) parameter *= 4;
  Lanes team(lanes);
  MetricSums total;
  for (int rank = 0; rank < world_size; ++rank) {
    ShardComputer computer(*model, team, {.batch = kBatch}, set.shape());
    total += computer.evaluate(set, rank, world_size, parameters.span());
  }
  return total;
}

/// `count` samples of ten kinds.
ByteImageSet shapes(std::size_t count) {
  return {"shapes", make_shapes(3, 0, count, {28, 28, 1}), shapes_normalization(1)};
}

TEST_CASE("test metrics have the same bits for every world size and number of lanes") {
  const ByteImageSet set = shapes(93);  // 11 full batches and one of 5
  const MetricSums alone = evaluate_with(1, 1, set);
  CHECK(alone.loss_fixed > 0);
  for (const int world_size : {1, 2, 3, 5, 13}) {
    for (const int lanes : {1, 2}) {
      INFO(world_size << " ranks with " << lanes << " lanes");
      CHECK(evaluate_with(world_size, lanes, set) == alone);
    }
  }
}

TEST_CASE("evaluation counts every sample once, also in a set smaller than a batch") {
  for (const std::size_t count : {1, 3, 8, 17}) {
    for (const int world_size : {1, 2, 4}) {
      INFO(count << " samples, " << world_size << " ranks");
      CHECK(evaluate_with(world_size, 1, shapes(count)).count == static_cast<std::int64_t>(count));
    }
  }
}

TEST_CASE("evaluation makes one executor on each lane, whatever is left over") {
  class Counted final : public Model {
   public:
    explicit Counted(const Model& model) : model_(model) {}
    const std::string& name() const override { return model_.name(); }
    const std::vector<Parameter>& parameters() const override { return model_.parameters(); }
    std::size_t arena_size() const override { return model_.arena_size(); }
    void initialize(std::span<float> parameters, std::uint64_t seed) const override {
      model_.initialize(parameters, seed);
    }
    std::unique_ptr<Executor> make_executor(int batch_size, Precision precision,
                                            int threads) const override {
      batch_sizes.push_back(batch_size);
      return model_.make_executor(batch_size, precision, threads);
    }
    mutable std::vector<int> batch_sizes;

   private:
    const Model& model_;
  };
  const ByteImageSet set = shapes(21);
  const auto model = make_model("lenet", set.shape(), set.classes());
  const Counted counted(*model);
  const FloatBuffer parameters(model->arena_size());
  Lanes team(1);
  ShardComputer computer(counted, team, {.batch = kBatch}, set.shape());
  computer.evaluate(set, 0, 1, parameters.span());
  CHECK(counted.batch_sizes == std::vector<int>{kBatch});
}

}  // namespace
}  // namespace ddprun::trainer
