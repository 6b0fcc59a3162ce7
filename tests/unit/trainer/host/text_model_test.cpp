// A graph of texts in the executor: widths, lengths, and what is not a text of its model.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "tests/unit/trainer/host/host_executor.hpp"
#include "trainer/compute/initialize.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/error.hpp"
#include "trainer/model/graph_builder.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kVocabulary = 30;

/// One encoder layer over all tokens and one over the first, as textclf has them, but small.
Graph small_net(double dropout) {
  GraphBuilder graph(TextShape{.vocabulary = kVocabulary, .positions = 96});
  int at = graph.layer_norm("norm", graph.embedding("embedding", 0, 16));
  at = graph.dropout(at, dropout);
  const int mixed = graph.attention(graph.attention_projection("one", at, 16), 2, dropout);
  at = graph.layer_norm("norm1", graph.add(at, graph.linear("out", mixed, 16)));
  at = graph.add(at, graph.gelu(graph.linear("inner", at, 16)));
  const int last = graph.attention(graph.attention_projection("two", at, 16), 2, dropout, true);
  at = graph.tanh(graph.add(last, graph.first_token(at)));
  graph.softmax_cross_entropy(graph.linear("head", graph.dropout(at, dropout), 3));
  return graph.finish();
}

struct TextSamples {
  std::vector<std::int32_t> tokens, lengths, labels;
  int width;
  [[nodiscard]] Batch batch() const {
    return {.labels = labels, .tokens = tokens, .lengths = lengths, .width = width};
  }
};

/// Text i has lengths[i] tokens, which do not depend on the width; behind them stands `padding`.
TextSamples texts(std::vector<std::int32_t> lengths, int width, std::int32_t padding = 0) {
  TextSamples samples{.tokens = {}, .lengths = std::move(lengths), .labels = {}, .width = width};
  for (std::size_t s = 0; s < samples.lengths.size(); ++s) {
    for (int i = 0; i < width; ++i)
      samples.tokens.push_back(i < samples.lengths[s]
                                   ? (static_cast<int>(s) * 7 + i * i * 3 + i) % kVocabulary
                                   : padding);
    samples.labels.push_back(static_cast<std::int32_t>(s % 3));
  }
  return samples;
}

struct TextSetup {
  explicit TextSetup(double dropout = 0.2)
      : graph(small_net(dropout)), parameters(graph.arena_size()) {
    initialize(graph.parameters(), parameters, 5);
    // 0.02 would leave attention almost uniform.
    for (float& parameter : parameters) parameter *= 4;
  }
  std::vector<float> train(test::HostExecutor& executor, const TextSamples& samples) const {
    std::vector<float> gradients(graph.arena_size(), 7.0F);
    executor.train(samples.batch(), parameters, 1, 1, gradients);
    return gradients;
  }
  Graph graph;
  std::vector<float> parameters;
};

TEST_CASE("every gradient of a text model agrees with finite differences") {
  TextSetup setup(0);
  const TextSamples samples = texts({20, 32, 5}, 32);
  test::HostExecutor executor(setup.graph, 3);
  const std::vector<float> gradients = setup.train(executor, samples);
  const auto loss_at = [&](std::size_t element, float offset) {
    const float before = setup.parameters[element];
    setup.parameters[element] = before + offset;
    const double loss = test::loss_of(executor.evaluate(samples.batch(), setup.parameters)) / 3;
    setup.parameters[element] = before;
    return loss;
  };
  for (const Parameter& parameter : setup.graph.parameters()) {
    for (std::size_t i = 0; i < parameter.count; i += 1 + parameter.count / 23) {
      const std::size_t element = parameter.offset + i;
      const float step = 5e-4F;
      const double slope = (loss_at(element, step) - loss_at(element, -step)) / 1e-3;
      INFO(parameter.name << " element " << i);
      // The loss is computed in fp32: 1e-7 / 1e-3 is the noise of a difference.
      REQUIRE(static_cast<double>(gradients[element]) ==
              Approx(slope).epsilon(1e-3).margin(1.5e-3));
    }
  }
}

TEST_CASE("neither the width of a batch nor what stands behind a text changes it") {
  const TextSetup setup;
  test::HostExecutor executor(setup.graph, 3);
  const std::vector<float> narrow = setup.train(executor, texts({20, 32, 5}, 32));
  CHECK(setup.train(executor, texts({20, 32, 5}, 32, 29)) == narrow);
  const std::vector<float> wide = setup.train(executor, texts({20, 32, 5}, 96));
  double worst = 0;
  for (std::size_t i = 0; i < wide.size(); ++i)
    worst = std::max(worst, static_cast<double>(std::abs(wide[i] - narrow[i])));
  CHECK(worst < 1e-5);  // sums over more rows of zeros
  CHECK(std::any_of(wide.begin(), wide.end(), [](float value) { return value != 0; }));
}

TEST_CASE("all widths and numbers of texts are views of one memory") {
  const TextSetup setup;
  test::HostExecutor executor(setup.graph, 3);
  setup.train(executor, texts({20, 96, 5}, 96));
  const std::size_t bytes = executor.bytes();
  const std::vector<float> first = setup.train(executor, texts({20, 32, 5}, 32));
  setup.train(executor, texts({40, 64}, 64));
  executor.evaluate(texts({7}, 32).batch(), setup.parameters);
  CHECK(executor.bytes() == bytes);
  CHECK(setup.train(executor, texts({20, 32, 5}, 32)) == first);
}

TEST_CASE("texts that become wider take no more memory than the plan of the widest") {
  const TextSetup setup;
  const std::unique_ptr<Device> device = make_host_device();
  test::HostExecutor executor(setup.graph, 3, Precision::fp32, 1, *device);
  GraphExecutor planned(setup.graph, test::host(), {.batch = 3});
  for (const int width : {32, 64, 96}) setup.train(executor, texts({20, width, 5}, width));
  CHECK(device->peak_bytes() > 0);
  CHECK(device->peak_bytes() <= planned.bytes_needed(3, 96));
}

TEST_CASE("evaluation of texts takes an incomplete batch") {
  const TextSetup setup;
  test::HostExecutor executor(setup.graph, 4);
  const Counters both = executor.evaluate(texts({20, 9}, 32).batch(), setup.parameters);
  CHECK(both.count == 2);
  const Counters more = executor.evaluate(texts({20, 9, 30}, 32).batch(), setup.parameters);
  CHECK(more.loss > both.loss);
  CHECK(executor.evaluate(texts({}, 32).batch(), setup.parameters).count == 0);
}

TEST_CASE("a token beyond the vocabulary is refused, in training and in evaluation") {
  const TextSetup setup;
  test::HostExecutor executor(setup.graph, 2);
  for (const std::int32_t wrong : {-1, kVocabulary}) {
    TextSamples samples = texts({20, 9}, 32);
    samples.tokens[32 + 8] = wrong;
    CHECK_THROWS_AS(setup.train(executor, samples), DataError);
    CHECK_THROWS_AS(executor.evaluate(samples.batch(), setup.parameters), DataError);
  }
  TextSamples wide = texts({20, 9}, 32);
  wide.width = 128;
  CHECK_THROWS_AS(setup.train(executor, wide), std::logic_error);
}

TEST_CASE("a text model in half precision gives nearly the same gradients") {
  const TextSetup setup;
  const TextSamples samples = texts({20, 32, 5}, 32);
  test::HostExecutor exact(setup.graph, 3);
  const std::vector<float> want = setup.train(exact, samples);
  float largest = 0;
  for (const float gradient : want) largest = std::max(largest, std::abs(gradient));
  test::HostExecutor rounded(setup.graph, 3, Precision::bf16);
  const std::vector<float> got = setup.train(rounded, samples);
  CHECK(got != want);
  for (std::size_t i = 0; i < want.size(); ++i) {
    REQUIRE_FALSE(is_non_finite(got[i]));
    REQUIRE(std::abs(got[i] - want[i]) < 0.06F * largest);
  }
}

}  // namespace
}  // namespace ddprun::trainer
