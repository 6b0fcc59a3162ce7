// What the lanes of one worker compute of a data set.
#include "trainer/run/loop/shard_computer.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/trainer/comm/fake_communicator.hpp"
#include "tests/unit/trainer/host/host_executor.hpp"
#include "trainer/compute/initialize.hpp"
#include "trainer/data/sentences.hpp"
#include "trainer/data/shapes.hpp"
#include "trainer/model/graph_builder.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kBatch = 8;

/// The sums over all ranks, each with `lanes` lanes.
Counters evaluate_with(int world_size, int lanes, const DataSet& set) {
  const ModelName model = set.texts() != nullptr                   ? ModelName::textclf
                          : set.images()->target() == Target::mask ? ModelName::unet16
                                                                   : ModelName::lenet;
  const Graph graph = make_graph({.model = model,
                                  .shape = image_shape(set),
                                  .classes = set.classes(),
                                  .vocabulary = text_shape(set).vocabulary});
  std::vector<float> parameters(graph.arena_size());
  initialize(graph.parameters(), parameters, 1);
  // As after training: small losses have more bits than the sums keep.
  for (float& parameter : parameters) parameter *= 4;
  Lanes team(lanes);
  const Preparation preparation({}, set);
  Counters total;
  for (int rank = 0; rank < world_size; ++rank) {
    ShardComputer computer(graph, test::host(), team, preparation, {.executor = {.batch = kBatch}});
    SampleReader samples(set, {});
    computer.evaluate(samples, rank, world_size, {parameters.data(), parameters.data()});
    total += computer.take_counters();
    CHECK(computer.take_counters() == Counters{});
  }
  return total;
}

/// `count` samples of ten kinds.
ByteImageSet shapes(std::size_t count) {
  return {"shapes", make_shapes(3, 0, count, {28, 28, 1}), shapes_normalization(1)};
}

TEST_CASE("test metrics have the same bits for every world size and number of lanes") {
  const ByteImageSet set = shapes(93);  // 11 full batches and one of 5
  const Counters alone = evaluate_with(1, 1, set);
  CHECK(alone.loss > 0);
  for (const int world_size : {1, 2, 3, 5, 13}) {
    for (const int lanes : {1, 2}) {
      INFO(world_size << " ranks with " << lanes << " lanes");
      CHECK(evaluate_with(world_size, lanes, set) == alone);
    }
  }
}

TEST_CASE("texts of any length have the same loss for every world size and number of lanes") {
  const TextSet set("sentences", make_sentences(3, 0, 45, 80));  // 5 full batches and one of 5
  const Counters alone = evaluate_with(1, 1, set);
  CHECK(alone.count == 45);
  for (const int world_size : {2, 3})
    for (const int lanes : {1, 2}) CHECK(evaluate_with(world_size, lanes, set) == alone);
}

TEST_CASE("masks go to the samples they belong to, whichever rank and lane computes them") {
  const ByteImageSet set("masked", make_shapes(3, 0, 11, {32, 32, 1}, Target::mask),
                         shapes_normalization(1));
  const Counters alone = evaluate_with(1, 1, set);
  CHECK(alone.count == 11);
  std::int64_t in_masks = 0;
  std::vector<std::uint8_t> pixels(32 * 32), mask(32 * 32);
  for (std::size_t i = 0; i < set.size(); ++i) {
    set.read(i, pixels, mask);
    in_masks += std::count(mask.begin(), mask.end(), 255);
  }
  CHECK(alone.true_positives + alone.false_negatives == in_masks);
  CHECK(evaluate_with(2, 2, set) == alone);
}

TEST_CASE("a mask has the window of its picture, in training and in evaluation") {
  // Pictures of 0 and 255 that are their own masks, and a network of one weight that finds them.
  constexpr ImageShape kPicture{.height = 40, .width = 36, .channels = 1};
  ByteImages images = make_shapes(3, 0, 12, kPicture, Target::mask);
  images.pixels = images.masks;
  const ByteImageSet set("masked", images, {.mean = {0.5F}, .deviation = {1}});
  GraphBuilder builder(ImageShape{.height = 32, .width = 32, .channels = 1});
  builder.binary_cross_entropy(builder.convolution("all", 0, 1, Window{.size = 1}), 1);
  const Graph graph = builder.finish();
  std::vector<float> parameters(graph.arena_size());
  for (const Parameter& parameter : graph.parameters())
    if (parameter.name == "all.weight") parameters[parameter.offset] = 100;
  for (const bool flips : {false, true}) {
    const Preparation preparation(
        {.crop = Crop{.height = 32, .width = 32, .padding = 5}, .flip = flips, .normalize = {}},
        set);
    Lanes alone(1);
    ShardComputer computer(graph, test::host(), alone, preparation,
                           {.executor = {.batch = 12}, .seed = 3});
    const Weights weights{parameters.data(), parameters.data()};
    const auto found = [&] {
      const Counters counters = computer.take_counters();
      CHECK(counters.true_positives > 0);
      CHECK(counters.false_positives == 0);
      CHECK(counters.false_negatives == 0);
      return counters.true_positives;
    };
    SampleReader samples(set, {});
    computer.evaluate(samples, 0, 1, weights);
    const std::int64_t held_out = found();
    FakeGroup group({.world_size = 1, .shards = 1, .arena_floats = graph.arena_size()});
    group.run([&](Communicator& communicator) {
      Reducer reducer(communicator, test::host(), 1, graph.arena_size());
      const EpochOrder order(set.size(), 1, static_cast<int>(set.size()), 0);
      const StepState state;
      reducer.begin_step();
      computer.train(
          samples,
          {.order = order, .epoch = 4, .weights = weights, .first_shard = &state, .others = &state},
          {.first = 0, .count = 1}, reducer);
      REQUIRE(reducer.finish_step(Clock::now() + std::chrono::seconds(10)).ok());
    });
    CHECK(found() != held_out);
  }
}

TEST_CASE("a held-out loss that is no number is that of its sample in the set") {
  ByteImages images;
  images.shape = {28, 28, 1};
  images.classes = 10;
  images.pixels.resize(20 * sample_size(images.shape));
  images.labels.resize(20);
  // All others are zeros; these overflow.
  for (const std::size_t sample : {13, 17})
    std::fill_n(images.pixels.begin() + static_cast<std::ptrdiff_t>(sample) * 28 * 28, 28 * 28,
                255);
  const ByteImageSet set("large", images, {.mean = {0}, .deviation = {1e-38F}});
  for (const int world_size : {1, 2, 3}) {
    for (const int lanes : {1, 2}) {
      const Counters counters = evaluate_with(world_size, lanes, set);
      CHECK(counters.count == 20);
      CHECK(counters.not_finite == 2);
      CHECK(counters.first_not_finite == 13);
    }
  }
}

TEST_CASE("an evaluation tells how far it is after each batch, up to the end") {
  const ByteImageSet set = shapes(45);  // 5 full batches and one of 5
  const Graph graph =
      make_graph({.model = ModelName::lenet, .shape = set.shape(), .classes = set.classes()});
  const std::vector<float> parameters(graph.arena_size());
  const auto shares = [&](int rank, int world_size, double until = 2) {
    Lanes alone(1);
    const Preparation preparation({}, set);
    ShardComputer computer(graph, test::host(), alone, preparation,
                           {.executor = {.batch = kBatch}});
    std::vector<double> all;
    SampleReader samples(set, {});
    computer.evaluate(samples, rank, world_size, {parameters.data(), parameters.data()},
                      [&](double share) {
                        all.push_back(share);
                        return share < until;
                      });
    return all;
  };
  CHECK(shares(0, 1) == std::vector{1 / 6.0, 2 / 6.0, 3 / 6.0, 4 / 6.0, 5 / 6.0, 1.0});
  CHECK(shares(1, 4) == std::vector{0.5, 1.0});
  CHECK(shares(3, 4) == std::vector{1.0});
  CHECK(shares(6, 7).empty());
  // The caller has seen enough.
  CHECK(shares(0, 1, 0.5) == std::vector{1 / 6.0, 2 / 6.0, 3 / 6.0});
}

TEST_CASE("evaluation counts every sample once, also in a set smaller than a batch") {
  for (const std::size_t count : {1, 3, 8, 17}) {
    for (const int world_size : {1, 2, 4}) {
      INFO(count << " samples, " << world_size << " ranks");
      CHECK(evaluate_with(world_size, 1, shapes(count)).count == static_cast<std::int64_t>(count));
    }
  }
}

}  // namespace
}  // namespace ddprun::trainer
