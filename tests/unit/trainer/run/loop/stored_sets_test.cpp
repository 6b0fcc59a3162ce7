// Data sets that stay on a GPU: what is learned of them is what is learned of samples that are
// sent.
#include "trainer/run/loop/stored_sets.hpp"

#include <catch2/catch.hpp>

#include "tests/emulated_gpu/emulated_gpu.hpp"
#include "tests/unit/trainer/data/placed_set.hpp"
#include "trainer/comm/make_communicator.hpp"
#include "trainer/compute/initialize.hpp"
#include "trainer/cuda/cuda_device.hpp"
#include "trainer/data/sentences.hpp"
#include "trainer/data/shapes.hpp"
#include "trainer/model/graph_builder.hpp"
#include "trainer/model/model.hpp"
#include "trainer/optim/learner.hpp"
#include "trainer/run/loop/shard_computer.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kOfShard = 4;  // samples
constexpr int kShards = 2;

struct Learned {
  std::uint64_t weights = 0;
  Counters trained, held_out;
  friend bool operator==(const Learned& a, const Learned& b) {
    return a.weights == b.weights && a.trained == b.trained && a.held_out == b.held_out;
  }
};

struct Run {
  const Graph& graph;
  const DataSet& set;  ///< also held out
  PreparationSettings preparation{};
};

/// Two epochs, with CUDA graphs. `stays`: the set is on the GPU. `seed`: of its schedule.
Learned learn(const Run& run, bool stays, std::uint64_t seed = 1) {
  const Graph& graph = run.graph;
  test::EmulatedGpu gpu({.seed = seed});
  const auto device = cuda::make_cuda_device(gpu);
  StoredSets stored;
  if (stays) {
    stored.choose({&run.set}, StoredSet::bytes(run.set));
    REQUIRE(stored.copy_to(*device));
  }
  REQUIRE((stored.find(run.set) != nullptr) == stays);
  Learner learner(graph, *device, {.optimizer = {}, .shards = kShards});
  std::vector<float> weights(graph.arena_size());
  initialize(graph.parameters(), weights, 3);
  learner.copy_in(0, weights);
  learner.set_learning_rate(0.01F);
  Lanes alone(1);
  const Preparation preparation(run.preparation, run.set);
  Capture capture(*device, true);
  ShardComputer computer(graph, *device, alone, preparation,
                         {.executor = {.batch = kOfShard, .capture = &capture},
                          .seed = 5,
                          .shards = kShards,
                          .stored = &stored});
  const auto communicator = make_communicator({.shards = kShards,
                                               .order = SumOrder::chain,
                                               .arena_floats = graph.arena_size(),
                                               .device = device.get()},
                                              nullptr, Clock::now())
                                .communicator;
  Reducer reducer(*communicator, *device, kShards, graph.arena_size());
  SampleReader samples(run.set, {});
  EpochOrder order(run.set.size(), kShards, kOfShard, 7);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    order.select(epoch);
    for (std::size_t step = 0; step < order.steps(); ++step) {
      reducer.begin_step();
      computer.train(samples,
                     {.order = order,
                      .epoch = epoch,
                      .step = step,
                      .weights = learner.weights(),
                      .first_shard = learner.state(),
                      .others = learner.state()},
                     {.first = 0, .count = kShards}, reducer);
      REQUIRE(reducer.finish_step(Clock::now() + std::chrono::seconds(10)).ok());
      learner.begin_update(reducer.gradients());
      learner.update(0, graph.arena_size(), reducer.gradients());
      learner.finish_update();
    }
  }
  Learned learned{.weights = learner.hash(), .trained = computer.take_counters(), .held_out = {}};
  computer.evaluate(samples, 0, 1, learner.weights());
  learned.held_out = computer.take_counters();
  CHECK(capture.take_failure().empty());
  CHECK(gpu.graphs() > 0);
  return learned;
}

/// On `schedules` schedules of the GPU.
void check_same(const Run& run, std::uint64_t schedules = 8) {
  const Learned sent = learn(run, false);
  CHECK(sent.trained.loss > 0);
  CHECK(sent.held_out.count == static_cast<std::int64_t>(run.set.size()));
  for (std::uint64_t seed = 1; seed <= schedules; ++seed) {
    CAPTURE(seed);
    CHECK(learn(run, true, seed) == sent);
  }
}

// 19 samples: two full steps and one of two samples.
constexpr std::size_t kSamples = 19;

TEST_CASE("images that stay on the GPU give the weights of those that are sent") {
  // A sample has 196 bytes, which are copied 4 at a time, or 507, which are copied one by one.
  for (const ImageShape shape : {ImageShape{14, 14, 1}, ImageShape{13, 13, 3}}) {
    const ByteImageSet set("shapes", make_shapes(3, 0, kSamples, shape),
                           shapes_normalization(shape.channels));
    const Graph graph = make_graph({.model = ModelName::lenet, .shape = shape, .classes = 10});
    check_same({graph, set});
  }
}

TEST_CASE("images that stay on the GPU are cropped and mirrored as those that are sent") {
  const ByteImageSet set("shapes", make_shapes(3, 0, kSamples, {14, 14, 1}),
                         shapes_normalization(1));
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = {12, 12, 1}, .classes = 10});
  const PreparationSettings cropped{
      .crop = Crop{.height = 12, .width = 12, .padding = 2}, .flip = true, .normalize = {}};
  check_same({graph, set, cropped});
  CHECK(!(learn({graph, set, cropped}, true) ==
          learn({graph, set, {.crop = Crop{.height = 12, .width = 12}, .normalize = {}}}, true)));
}

TEST_CASE("masks that stay on the GPU are those of their images, whole and cropped") {
  const auto network = [](int side) {
    GraphBuilder graph(ImageShape{.height = side, .width = side, .channels = 1});
    graph.binary_cross_entropy(graph.convolution("all", 0, 1, Window{.size = 1}), 1);
    return graph.finish();
  };
  const ByteImageSet set("masked", make_shapes(3, 0, kSamples, {15, 15, 1}, Target::mask),
                         shapes_normalization(1));
  const Graph whole = network(15);
  check_same({whole, set});
  const Graph part = network(12);
  check_same(
      {part,
       set,
       {.crop = Crop{.height = 12, .width = 12, .padding = 1}, .flip = true, .normalize = {}}});
}

TEST_CASE("texts that stay on the GPU give the weights of those that are sent") {
  const TextSet set("sentences", make_sentences(3, 0, kSamples, 40));
  const Graph graph = make_graph({.model = ModelName::textclf,
                                  .shape = image_shape(set),
                                  .classes = set.classes(),
                                  .dropout = 0.1,
                                  .vocabulary = text_shape(set).vocabulary});
  check_same({graph, set}, 2);  // each takes seconds
}

TEST_CASE("a set takes the bytes of its samples, read once more than a piece at a time") {
  const ByteImageSet set("shapes", make_shapes(3, 0, 3, {600, 800, 1}), shapes_normalization(1));
  test::EmulatedGpu gpu;
  const auto device = cuda::make_cuda_device(gpu);
  const std::size_t before = gpu.memory_used();
  const StoredSet stored(set, *device);
  CHECK(StoredSet::bytes(set) == 3 * 600 * 800);
  CHECK(gpu.memory_used() - before == StoredSet::bytes(set));
  const TextSet texts("sentences", make_sentences(3, 0, 5, 40));
  std::uint64_t tokens = 0;
  for (std::size_t i = 0; i < texts.size(); ++i)
    tokens += static_cast<std::uint64_t>(texts.length(i));
  CHECK(StoredSet::bytes(texts) == 4 * tokens);
}

TEST_CASE("a GPU keeps no set when other programs have taken its memory since") {
  const ByteImageSet first("shapes", make_shapes(3, 0, 100, {14, 14, 1}), shapes_normalization(1));
  const ByteImageSet second("shapes", make_shapes(5, 0, 2000, {14, 14, 1}),
                            shapes_normalization(1));
  test::EmulatedGpu gpu({.memory = 300'000});
  const auto device = cuda::make_cuda_device(gpu);
  const std::size_t before = gpu.memory_used();
  StoredSets stored;
  stored.choose({&first, &second}, 1'000'000);
  REQUIRE(stored.bytes() == 2100 * 14 * 14);
  CHECK_FALSE(stored.copy_to(*device));
  CHECK(stored.find(first) == nullptr);
  CHECK(gpu.memory_used() == before);
}

TEST_CASE("sets stay on the GPU as far as they fit, and are in memory") {
  const PlacedSet large(make_shapes(1, 0, 50, {8, 8, 1}), true);
  const PlacedSet small(make_shapes(1, 0, 7, {8, 8, 1}), true);
  const PlacedSet files(make_shapes(1, 0, 2, {8, 8, 1}), false);
  const auto bytes = [&](std::uint64_t most) {
    StoredSets stored;
    stored.choose({&large, &small, &files}, most);
    return stored.bytes();
  };
  CHECK(bytes(57 * 64) == 57 * 64);
  CHECK(bytes(57 * 64 - 1) == 50 * 64);
  CHECK(bytes(50 * 64 - 1) == 7 * 64);
  CHECK(bytes(7 * 64 - 1) == 0);
}

TEST_CASE("data sets get an eighth of what a run leaves of the GPU's free memory") {
  CHECK(StoredSets::bytes_most(14'000'000, 1, 6'000'000) == 1'000'000);
  CHECK(StoredSets::bytes_most(28'000'000, 2, 6'000'000) == 1'000'000);
  CHECK(StoredSets::bytes_most(6'000'000, 1, 6'000'000) == 0);
  CHECK(StoredSets::bytes_most(11'000'000, 2, 6'000'000) == 0);
  CHECK(StoredSets::bytes_most(0, 1, 6'000'000) == 0);
}

TEST_CASE("a sample beyond its set is refused before the GPU would read there") {
  const ByteImageSet set("shapes", make_shapes(3, 0, 2, {14, 14, 1}), shapes_normalization(1));
  const Graph graph = make_graph({.model = ModelName::lenet, .shape = set.shape(), .classes = 10});
  test::EmulatedGpu gpu;
  const auto device = cuda::make_cuda_device(gpu);
  const StoredSet stored(set, *device);
  const Preparation preparation({}, set);
  const Learner learner(graph, *device, {.optimizer = {}});
  GraphExecutor executor(graph, *device, {.batch = 1});
  const std::vector<std::int32_t> labels{3};
  const auto evaluate = [&](StoredRow row) {
    executor.evaluate({.labels = labels,
                       .tables = preparation.tables(),
                       .stored_pixels = stored.pixels(std::span(&row, 1))},
                      learner.weights());
  };
  CHECK_NOTHROW(evaluate(stored.pixel_row(1)));
  CHECK_THROWS_WITH(evaluate(stored.pixel_row(2)), "a sample beyond its set");
  StoredRow row = stored.pixel_row(1);
  row.begin += 1;
  CHECK_THROWS_WITH(evaluate(row), "a sample beyond its set");
}

}  // namespace
}  // namespace ddprun::trainer
