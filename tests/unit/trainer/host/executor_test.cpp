#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "tests/unit/trainer/host/host_executor.hpp"
#include "tests/unit/trainer/host/samples.hpp"
#include "trainer/compute/initialize.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/error.hpp"
#include "trainer/model/graph_builder.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {
namespace {

/// A small net with a residual connection, so that one activation has two readers, and both kinds
/// of pooling.
Graph residual_net() {
  GraphBuilder graph({6, 6, 2});
  const int stem = graph.convolution("stem", 0, 4, {.size = 3, .stride = 1, .padding = 1});
  const int branch =
      graph.convolution("branch", graph.relu(stem), 4, {.size = 3, .stride = 1, .padding = 1});
  const int sum = graph.relu(graph.add(branch, stem));
  const int pooled = graph.adaptive_average_pool(sum, 3, 3);
  const int both = graph.add(graph.max_pool(sum, {.size = 2, .stride = 2, .padding = 0}), pooled);
  graph.softmax_cross_entropy(graph.linear("head", graph.flatten(both), 3));
  return graph.finish();
}

struct Trained {
  Counters counters;
  std::vector<float> gradients;
  std::vector<std::size_t> marks;
};

struct Setup {
  Graph graph = residual_net();
  test::Samples samples = test::noise(4, {6, 6, 2}, 3, 1);
  std::vector<float> parameters = std::vector<float>(graph.arena_size());
  Setup() { initialize(graph.parameters(), parameters, 5); }

  Trained train(test::HostExecutor& executor, float scale, int shards) {
    Trained trained;
    trained.gradients.assign(graph.arena_size(), std::numeric_limits<float>::quiet_NaN());
    trained.counters = executor.train(samples.batch(), parameters, scale, shards, trained.gradients,
                                      [&](std::size_t end) { trained.marks.push_back(end); });
    return trained;
  }
  Trained train(Precision precision, float scale = 1, int shards = 1,
                Device& device = test::host()) {
    test::HostExecutor executor(graph, 4, precision, 1, device);
    return train(executor, scale, shards);
  }
};

TEST_CASE("every parameter's gradient agrees with finite differences, through a residual net") {
  Setup setup;
  test::HostExecutor executor(setup.graph, 4);
  const Trained trained = setup.train(executor, 1, 1);
  const auto loss_at = [&](std::size_t element, float offset) {
    const float before = setup.parameters[element];
    setup.parameters[element] = before + offset;
    const double loss =
        test::loss_of(executor.evaluate(setup.samples.batch(), setup.parameters)) / 4;
    setup.parameters[element] = before;
    return loss;
  };
  for (const Parameter& parameter : setup.graph.parameters()) {
    for (std::size_t i = 0; i < parameter.count; i += 1 + parameter.count / 23) {
      const std::size_t element = parameter.offset + i;
      const float step = 2.5e-4F;
      const double slope = (loss_at(element, step) - loss_at(element, -step)) / (2.0 * 2.5e-4);
      INFO(parameter.name << " element " << i);
      // The loss is computed in fp32: 1e-7 / 5e-4 is the noise of a difference; ReLUs and maxima
      // add kinks.
      REQUIRE(static_cast<double>(trained.gradients[element]) == Approx(slope).margin(1.5e-3));
    }
  }
}

TEST_CASE("final_up_to rises layer by layer to the arena's size, and padding is zero") {
  Setup setup;
  const Trained trained = setup.train(Precision::fp32);
  REQUIRE(trained.marks.size() == 3);
  REQUIRE(std::is_sorted(trained.marks.begin(), trained.marks.end()));
  REQUIRE(trained.marks.back() == setup.graph.arena_size());
  std::size_t end = 0;
  for (const Parameter& parameter : setup.graph.parameters()) {
    for (; end < parameter.offset; ++end) REQUIRE(trained.gradients[end] == 0.0F);
    end = parameter.offset + parameter.count;
  }
  for (; end < setup.graph.arena_size(); ++end) REQUIRE(trained.gradients[end] == 0.0F);
  for (const float gradient : trained.gradients) REQUIRE_FALSE(is_non_finite(gradient));
}

TEST_CASE("what final_up_to has passed is final when it is called") {
  Setup setup;
  test::HostExecutor executor(setup.graph, 4);
  std::vector<float> gradients(setup.graph.arena_size());
  std::vector<float> seen;
  executor.train(setup.samples.batch(), setup.parameters, 1, 1, gradients, [&](std::size_t end) {
    seen.insert(seen.end(), gradients.begin() + static_cast<std::ptrdiff_t>(seen.size()),
                gradients.begin() + static_cast<std::ptrdiff_t>(end));
  });
  REQUIRE(seen == gradients);
}

TEST_CASE("a power-of-two loss scale and the number of shards scale the gradients exactly") {
  Setup setup;
  const Trained plain = setup.train(Precision::fp32);
  const Trained scaled = setup.train(Precision::fp32, 1024, 4);
  for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
    REQUIRE(scaled.gradients[i] == 256 * plain.gradients[i]);
  }
  REQUIRE(scaled.counters == plain.counters);
}

TEST_CASE("half precisions give nearly the same loss and gradients, but not the same bits") {
  Setup setup;
  const Trained exact = setup.train(Precision::fp32, 256);
  double largest = 0;
  for (const float gradient : exact.gradients) {
    largest = std::max(largest, static_cast<double>(std::abs(gradient)));
  }
  struct Half {
    Precision precision;
    double tolerance;
    Device& device;
  };
  for (const Half& half : {Half{Precision::bf16, 0.04, test::host()},
                           Half{Precision::bf16, 0.04, test::rounding_host()},
                           Half{Precision::fp16, 0.005, test::host()}}) {
    const double tolerance = half.tolerance;
    const Trained rounded = setup.train(half.precision, 256, 1, half.device);
    REQUIRE(rounded.gradients != exact.gradients);
    REQUIRE(test::loss_of(rounded.counters) ==
            Approx(test::loss_of(exact.counters)).epsilon(tolerance));
    for (std::size_t i = 0; i < exact.gradients.size(); ++i) {
      REQUIRE(static_cast<double>(rounded.gradients[i]) ==
              Approx(static_cast<double>(exact.gradients[i])).margin(tolerance * largest));
    }
  }
}

TEST_CASE(
    "fp16 gradients overflow to inf or nan when the loss scale is too high, fp32 ones do not") {
  Setup setup;
  const auto overflows = [&](Precision precision, float scale) {
    const Trained trained = setup.train(precision, scale);
    REQUIRE(trained.counters.not_finite == 0);  // the scale never touches the loss itself
    for (const float gradient : trained.gradients) {
      if (is_non_finite(gradient)) return true;
    }
    return false;
  };
  REQUIRE_FALSE(overflows(Precision::fp16, 65536));
  REQUIRE(overflows(Precision::fp16, 16777216));
  REQUIRE_FALSE(overflows(Precision::fp32, 16777216));
  REQUIRE_FALSE(overflows(Precision::bf16, 16777216));
}

TEST_CASE("an overflow in the forward pass is seen in the gradients, max-pooling or not") {
  for (const float image : {65504.0F, -65504.0F}) {
    const Graph graph = make_graph({ModelName::lenet, {8, 8, 1}, 3});
    std::vector<float> parameters(graph.arena_size());
    std::vector<float> gradients(graph.arena_size());
    initialize(graph.parameters(), parameters, 1);
    for (float& parameter : parameters) parameter *= 100;
    test::Samples samples = test::noise(4, {8, 8, 1}, 3, 1);
    for (float& pixel : samples.images) pixel *= image;
    test::HostExecutor(graph, 4, Precision::fp16)
        .train(samples.batch(), parameters, 1024, 1, gradients);
    REQUIRE(std::any_of(gradients.begin(), gradients.end(), is_non_finite));
  }
}

TEST_CASE("a nan in the images is seen in the loss") {
  const Graph graph = make_graph({ModelName::lenet, {8, 8, 1}, 3});
  std::vector<float> parameters(graph.arena_size());
  initialize(graph.parameters(), parameters, 1);
  test::Samples samples = test::noise(1, {8, 8, 1}, 3, 1);
  for (float& pixel : samples.images) pixel = std::numeric_limits<float>::quiet_NaN();
  const Counters counters = test::HostExecutor(graph, 1).evaluate(samples.batch(), parameters);
  REQUIRE(counters.not_finite == 1);
  REQUIRE(counters.correct == 0);
}

TEST_CASE("fp16 loses small gradients without a loss scale and keeps them with one") {
  Setup setup;
  const auto zeros = [&](float scale) {
    // A 100-millionth of the gradient: far below fp16's smallest number unless it is scaled up.
    const Trained trained = setup.train(Precision::fp16, scale, 100000000);
    return std::count(trained.gradients.begin(), trained.gradients.end(), 0.0F);
  };
  REQUIRE(zeros(65536) < zeros(1));
}

TEST_CASE("evaluation takes an incomplete batch, and rows without a sample do not count") {
  Setup setup;
  test::HostExecutor executor(setup.graph, 4);
  const Counters full = executor.evaluate(setup.samples.batch(), setup.parameters);
  Counters sum;
  for (std::size_t i = 0; i < 4; i += 3) {
    const std::size_t count = std::min<std::size_t>(3, 4 - i);
    const Batch part{std::span(setup.samples.images).subspan(i * 72, count * 72),
                     std::span(setup.samples.labels).subspan(i, count)};
    const Counters one = executor.evaluate(part, setup.parameters);
    REQUIRE(one.count == static_cast<std::int64_t>(count));
    sum += one;
  }
  REQUIRE(sum == full);
  REQUIRE(executor.evaluate({}, setup.parameters).count == 0);
}

/// Samples of Setup as bytes with tables.
struct AsPixels {
  std::vector<std::uint8_t> pixels;
  std::vector<float> tables, floats;
  AsPixels() {
    for (std::size_t i = 0; i < std::size_t{4} * 72; ++i)
      pixels.push_back(static_cast<std::uint8_t>(i * 37 + i / 72));
    for (int i = 0; i < 512; ++i) tables.push_back(static_cast<float>(i - 200) / 119.0F);
    for (std::size_t i = 0; i < pixels.size(); ++i)
      floats.push_back(tables[i % 2 * 256 + pixels[i]]);
  }
};

TEST_CASE("images of bytes have the bits of the floats that the tables make of them") {
  Setup setup;
  const AsPixels as;
  const std::size_t values = GENERATE(std::size_t{4}, std::size_t{3}) * 72;
  const auto labels = std::span(setup.samples.labels).first(values / 72);
  const Batch bytes{
      .labels = labels, .pixels = std::span(as.pixels).first(values), .tables = as.tables};
  const Batch floats{.images = std::span(as.floats).first(values), .labels = labels};
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (Device* const device : {&test::host(), &test::rounding_host()}) {
      const auto trained = [&](const Batch& batch) {
        test::HostExecutor executor(setup.graph, 4, precision, 1, *device);
        std::vector<float> gradients(setup.graph.arena_size());
        executor.evaluate(setup.samples.batch(), setup.parameters);
        const Counters evaluated = executor.evaluate(batch, setup.parameters);
        const Counters counters = executor.train(batch, setup.parameters, 1, 1, gradients);
        return std::tuple(evaluated.loss, counters.loss, gradients);
      };
      CHECK(trained(bytes) == trained(floats));
    }
  }
}

TEST_CASE("windows of images have the bits of the floats that they show") {
  Setup setup;
  const AsPixels as;
  // These pixels with a row above and two columns on the left that no window shows.
  constexpr WindowSides kSides{.from_height = 7, .from_width = 8, .height = 6, .width = 6};
  std::vector<std::uint8_t> stored;
  for (std::size_t sample = 0; sample < 4; ++sample) {
    stored.insert(stored.end(), 16, 99);
    for (std::size_t row = 0; row < 6; ++row) {
      stored.insert(stored.end(), 4, 99);
      const auto begin = as.pixels.begin() + static_cast<std::ptrdiff_t>(sample * 72 + row * 12);
      stored.insert(stored.end(), begin, begin + 12);
    }
  }
  const std::vector<ImageWindow> windows(4, {1, 2, 0});
  test::HostExecutor executor(setup.graph, 4);
  Batch shown{.labels = setup.samples.labels,
              .pixels = stored,
              .tables = as.tables,
              .windows = windows,
              .sides = kSides};
  const Batch floats{.images = as.floats, .labels = setup.samples.labels};
  CHECK(executor.evaluate(shown, setup.parameters).loss ==
        executor.evaluate(floats, setup.parameters).loss);
  shown.windows = shown.windows.first(3);
  CHECK_THROWS_AS(executor.evaluate(shown, setup.parameters), std::logic_error);
  shown.windows = windows;
  shown.sides.height = 5;
  CHECK_THROWS_AS(executor.evaluate(shown, setup.parameters), std::logic_error);
}

TEST_CASE("a smaller training batch is a view of the same memory, and a batch of its own size") {
  Setup setup;
  test::HostExecutor executor(setup.graph, 4);
  const Trained before = setup.train(executor, 1, 1);
  const std::size_t bytes = executor.bytes();
  const Batch part{std::span(setup.samples.images).first(3 * 72),
                   std::span(setup.samples.labels).first(3)};
  std::vector<float> gradients(setup.graph.arena_size());
  const Counters counters = executor.train(part, setup.parameters, 1, 1, gradients);
  std::vector<float> own(setup.graph.arena_size());
  REQUIRE(test::HostExecutor(setup.graph, 3).train(part, setup.parameters, 1, 1, own) == counters);
  REQUIRE(gradients == own);
  REQUIRE(executor.bytes() == bytes);
  REQUIRE(setup.train(executor, 1, 1).gradients == before.gradients);
}

TEST_CASE("evaluation between training steps leaves their gradients as they were") {
  Setup setup;
  test::HostExecutor executor(setup.graph, 4);
  const Trained before = setup.train(executor, 1, 1);
  const test::Samples others = test::noise(4, {6, 6, 2}, 3, 99);
  executor.evaluate(others.batch(), setup.parameters);
  REQUIRE(setup.train(executor, 1, 1).gradients == before.gradients);
}

TEST_CASE("bad data and bad calls are told apart") {
  Setup setup;
  test::HostExecutor executor(setup.graph, 4);
  setup.samples.labels[2] = 3;
  REQUIRE_THROWS_WITH(setup.train(executor, 1, 1),
                      Catch::Contains("label 3") && Catch::Contains("0 to 2"));
  setup.samples.labels[2] = -1;
  REQUIRE_THROWS_AS(setup.train(executor, 1, 1), DataError);
  setup.samples.labels = {0, 1, 2};
  REQUIRE_THROWS_AS(setup.train(executor, 1, 1), std::logic_error);  // four images
  setup.samples = test::noise(5, {6, 6, 2}, 3, 1);
  REQUIRE_THROWS_AS(setup.train(executor, 1, 1), std::logic_error);  // more than it is made for
  setup.samples = {};
  REQUIRE_THROWS_WITH(setup.train(executor, 1, 1), Catch::Contains("a batch without samples"));
  GraphExecutor counted(setup.graph, test::host(), {.batch = 4});
  REQUIRE_THROWS_AS(counted.bytes_needed(0, 0), std::logic_error);
  setup.samples = test::noise(4, {6, 6, 2}, 3, 1);
  const AsPixels as;
  Batch bytes{.labels = setup.samples.labels, .pixels = as.pixels, .tables = as.tables};
  REQUIRE_NOTHROW(executor.evaluate(bytes, setup.parameters));
  bytes.tables = bytes.tables.first(256);  // of one channel
  REQUIRE_THROWS_AS(executor.evaluate(bytes, setup.parameters), std::logic_error);
  bytes.tables = {};
  REQUIRE_THROWS_AS(executor.evaluate(bytes, setup.parameters), std::logic_error);
  std::vector<float> short_arena(16);
  REQUIRE_THROWS_AS(executor.train(setup.samples.batch(), setup.parameters, 1, 1, short_arena),
                    std::logic_error);
  REQUIRE_THROWS_AS(test::HostExecutor(setup.graph, 0), DataError);
  REQUIRE_THROWS_AS(test::HostExecutor(setup.graph, 4, Precision::fp32, 0), DataError);
}

}  // namespace
}  // namespace ddprun::trainer
