#include "trainer/compute/memory_plan.hpp"
#include "trainer/model/graph_builder.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

namespace ddprun::trainer {
namespace {

constexpr std::size_t kNowhere = LayerPlaces::kNowhere;
constexpr Window kSame{.size = 3, .stride = 1, .padding = 1};

MemoryPlan plan_of(const Graph& graph, int batch, bool trains) {
  const std::vector<OperationMemory> none(graph.layers().size());
  return plan_memory(graph, batch, sizeof(float), trains, none);
}

/// Five convolutions, one after the other, each with a ReLU.
Graph chain(int convolutions = 5) {
  GraphBuilder graph({8, 8, 4});
  int at = 0;
  for (int i = 0; i < convolutions; ++i)
    at = graph.relu(graph.convolution("conv" + std::to_string(i), at, 4, kSame));
  graph.softmax_cross_entropy(graph.linear("head", graph.flatten(at), 10));
  return graph.finish();
}

constexpr std::size_t kLayerBytes = 8 * 8 * 4 * sizeof(float);

TEST_CASE("needs of one moment never overlap, and others share memory") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<MemoryNeed> needs(1 + random() % 40);
    std::size_t sum = 0;
    for (MemoryNeed& need : needs) {
      need.bytes = 1 + random() % 5000;
      need.first = static_cast<int>(random() % 30);
      need.last = need.first + static_cast<int>(random() % 8);
      sum += (need.bytes + 63) / 64 * 64;
    }
    const Placement placement = place(needs);
    std::size_t at_once = 0;  // no plan can do with less
    for (int moment = 0; moment < 40; ++moment) {
      std::size_t bytes = 0;
      for (const MemoryNeed& need : needs)
        if (need.first <= moment && moment <= need.last) bytes += need.bytes;
      at_once = std::max(at_once, bytes);
    }
    REQUIRE(placement.bytes >= at_once);
    REQUIRE(placement.bytes <= sum);
    for (std::size_t i = 0; i < needs.size(); ++i) {
      REQUIRE(placement.offsets[i] % 64 == 0);
      REQUIRE(placement.offsets[i] + needs[i].bytes <= placement.bytes);
      for (std::size_t k = 0; k < i; ++k) {
        const bool meet = needs[i].first <= needs[k].last && needs[k].first <= needs[i].last;
        const bool apart = placement.offsets[i] + needs[i].bytes <= placement.offsets[k] ||
                           placement.offsets[k] + needs[k].bytes <= placement.offsets[i];
        REQUIRE((!meet || apart));
      }
    }
  }
}

TEST_CASE("a ReLU works in place, and its gradient too") {
  const Graph graph = chain();
  const MemoryPlan plan = plan_of(graph, 1, true);
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    if (!std::holds_alternative<layer::Relu>(graph.layers()[i].kind)) continue;
    CHECK(plan.layers[i].output == plan.layers[i - 1].output);
    CHECK(plan.layers[i].gradient == plan.layers[i - 1].gradient);
  }
}

TEST_CASE("what backward reads of its input is not overwritten by a ReLU") {
  // The convolution in the middle reads its input in backward; so does the ReLU its output.
  GraphBuilder builder({8, 8, 4});
  const int first = builder.convolution("first", 0, 4, kSame);
  const int second = builder.convolution("second", first, 4, kSame);
  const int both = builder.add(builder.relu(first), second);  // two readers
  builder.softmax_cross_entropy(builder.linear("head", builder.flatten(both), 10));
  const Graph graph = builder.finish();
  const MemoryPlan plan = plan_of(graph, 1, true);
  const auto relu = static_cast<std::size_t>(second) + 1;
  CHECK(plan.layers[relu].output != plan.layers[static_cast<std::size_t>(first)].output);
}

TEST_CASE("training keeps one activation of each layer and two gradients at a time") {
  for (const int convolutions : {5, 20}) {
    const MemoryPlan plan = plan_of(chain(convolutions), 1, true);
    const auto layers = static_cast<std::size_t>(convolutions);
    CHECK(plan.bytes >= (layers + 1) * kLayerBytes);
    CHECK(plan.bytes <= (layers + 4) * kLayerBytes);
  }
}

TEST_CASE("evaluation needs as much memory for many layers as for few") {
  const MemoryPlan few = plan_of(chain(3), 1, false);
  const MemoryPlan many = plan_of(chain(30), 1, false);
  CHECK(many.bytes == few.bytes);
  CHECK(many.bytes <= 3 * kLayerBytes);
  for (const LayerPlaces& places : many.layers) CHECK(places.gradient == kNowhere);
}

TEST_CASE("the plan grows with the batch, and the samples have no gradient") {
  const Graph graph = chain();
  const MemoryPlan one = plan_of(graph, 1, true);
  const MemoryPlan four = plan_of(graph, 4, true);
  CHECK(four.bytes > 3 * one.bytes);
  CHECK(one.layers.front().gradient == kNowhere);
  CHECK(one.layers.back().output == kNowhere);  // the loss
}

TEST_CASE("one workspace serves all operations, behind the values") {
  const Graph graph = chain();
  std::vector<OperationMemory> memories(graph.layers().size());
  const MemoryPlan without = plan_memory(graph, 1, sizeof(float), true, memories);
  for (OperationMemory& memory : memories) memory.workspace = 1000;
  memories[2].workspace = 5000;
  memories[3].saved = 100;
  const MemoryPlan plan = plan_memory(graph, 1, sizeof(float), true, memories);
  CHECK(plan.bytes >= plan.workspace + 5000);
  CHECK(plan.bytes <= without.bytes + 5056 + 128);
  CHECK(plan.layers[3].saved != kNowhere);
  CHECK(plan.layers[2].saved == kNowhere);
}

TEST_CASE("an activation with several readers gets the sum of their gradients") {
  GraphBuilder builder({4, 4, 2});
  const int stem = builder.convolution("stem", 0, 2, kSame);
  const int branch = builder.convolution("branch", builder.relu(stem), 2, kSame);
  const int sum = builder.add(branch, stem);
  builder.softmax_cross_entropy(builder.linear("head", builder.flatten(sum), 3));
  const Graph graph = builder.finish();
  const auto uses = gradient_uses(graph);
  CHECK(uses[static_cast<std::size_t>(stem)] == std::vector{GradientUse::none});  // the images
  CHECK(uses[static_cast<std::size_t>(sum)] ==
        std::vector{GradientUse::overwrite, GradientUse::overwrite});
  const auto relu = static_cast<std::size_t>(stem) + 1;
  CHECK(uses[relu] == std::vector{GradientUse::accumulate});
}

}  // namespace
}  // namespace ddprun::trainer
