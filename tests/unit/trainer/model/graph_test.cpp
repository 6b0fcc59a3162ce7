#include "trainer/model/graph.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>

#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

TEST_CASE("windows decide the shapes, as in PyTorch") {
  Graph graph({28, 20, 3});
  const int conv = graph.convolution("a", 0, 8, {.size = 5, .stride = 2, .padding = 1});
  REQUIRE(graph.layers()[static_cast<std::size_t>(conv)].output == ActivationShape{13, 9, 8});
  const int pool = graph.max_pool(conv, {.size = 3, .stride = 2, .padding = 0});
  REQUIRE(graph.layers()[static_cast<std::size_t>(pool)].output == ActivationShape{6, 4, 8});
  const int flat = graph.flatten(graph.relu(pool));
  REQUIRE(graph.layers()[static_cast<std::size_t>(flat)].output == ActivationShape{1, 1, 192});
}

TEST_CASE("concat puts the channels of the second input behind those of the first") {
  Graph graph({8, 6, 3});
  const int more = graph.convolution("a", 0, 5, {.size = 3, .stride = 1, .padding = 1});
  REQUIRE(graph.layer(graph.concat(0, more)).output == ActivationShape{8, 6, 8});
}

TEST_CASE("a transposed convolution enlarges, and its weight is PyTorch's inputs x outputs") {
  Graph graph({7, 5, 6});
  const int four = graph.transposed_convolution("four", 0, 3,
                                                {.window = {.size = 4, .stride = 2, .padding = 1}});
  CHECK(graph.layer(four).output == ActivationShape{14, 10, 3});
  const int three = graph.transposed_convolution(
      "three", four, 2, {.window = {.size = 3, .stride = 2, .padding = 1}, .output_padding = 1});
  CHECK(graph.layer(three).output == ActivationShape{28, 20, 2});
  graph.softmax_cross_entropy(graph.linear("head", graph.flatten(three), 10));
  graph.finish();
  const Parameter& weight = graph.parameters().at(4);
  CHECK(weight.name == "four.weight");
  CHECK(weight.shape == std::vector<std::int64_t>{6, 3, 4, 4});
  CHECK(weight.initial.value == Approx(1 / std::sqrt(3.0 * 16)));  // torch: the outputs are the fan
  CHECK(graph.parameters().at(5).initial.value == weight.initial.value);
}

TEST_CASE("parameters lie in the order in which backward finishes them, each on 64 bytes") {
  Graph graph({8, 8, 1});
  graph.softmax_cross_entropy(
      graph.linear("head", graph.flatten(graph.convolution("stem", 0, 3, {.size = 3})), 10));
  graph.finish();
  const auto& parameters = graph.parameters();
  REQUIRE(parameters.size() == 4);
  REQUIRE(parameters[0].name == "head.weight");
  REQUIRE(parameters[0].shape == std::vector<std::int64_t>{10, 108});
  REQUIRE(parameters[0].decay);
  REQUIRE(parameters[1].name == "head.bias");
  REQUIRE_FALSE(parameters[1].decay);
  REQUIRE(parameters[2].name == "stem.weight");
  REQUIRE(parameters[2].shape == std::vector<std::int64_t>{3, 1, 3, 3});
  REQUIRE(parameters[2].layout == ParameterLayout::conv_ohwi);
  REQUIRE(parameters[3].name == "stem.bias");
  std::size_t end = 0;
  for (const Parameter& parameter : parameters) {
    REQUIRE(parameter.offset % 16 == 0);
    REQUIRE(parameter.offset >= end);
    REQUIRE(parameter.offset < end + 16);
    end = parameter.offset + parameter.count;
  }
  REQUIRE(graph.arena_size() % 16 == 0);
  REQUIRE(graph.arena_size() >= end);
  REQUIRE(graph.final_up_to(graph.layers()[3]) == parameters[2].offset);
  REQUIRE(graph.final_up_to(graph.layers()[1]) == graph.arena_size());
}

TEST_CASE("images too small for a window are refused with both sizes in the message") {
  Graph graph({2, 28, 1});
  REQUIRE_THROWS_WITH(graph.max_pool(0, {.size = 3, .stride = 1, .padding = 0}),
                      Catch::Contains("of size 3 meets 2 pixels"));
  REQUIRE_THROWS_AS(graph.convolution("a", 0, 1, {.size = 5}), DataError);
  REQUIRE_THROWS_AS(Graph({0, 28, 1}), DataError);
}

TEST_CASE("tables that cannot work are our own mistake") {
  Graph graph({8, 8, 1});
  REQUIRE_THROWS_AS(graph.linear("head", 0, 10), std::logic_error);
  const int half = graph.max_pool(0, {.size = 2, .stride = 2, .padding = 0});
  REQUIRE_THROWS_AS(graph.add(0, half), std::logic_error);
  REQUIRE_THROWS_AS(graph.concat(0, half), std::logic_error);
  REQUIRE_THROWS_AS(graph.finish(), std::logic_error);  // no loss
}

}  // namespace
}  // namespace ddprun::trainer
