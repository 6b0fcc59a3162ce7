#include "trainer/model/graph_builder.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "trainer/error.hpp"
#include "trainer/model/layout.hpp"

namespace ddprun::trainer {
namespace {

TEST_CASE("windows decide the shapes, as in PyTorch") {
  GraphBuilder graph({28, 20, 3});
  const int conv = graph.convolution("a", 0, 8, {.size = 5, .stride = 2, .padding = 1});
  REQUIRE(graph.layer(conv).output == ActivationShape{13, 9, 8});
  const int pool = graph.max_pool(conv, {.size = 3, .stride = 2, .padding = 0});
  REQUIRE(graph.layer(pool).output == ActivationShape{6, 4, 8});
  const int flat = graph.flatten(graph.relu(pool));
  REQUIRE(graph.layer(flat).output == ActivationShape{1, 1, 192});
}

TEST_CASE("concat puts the channels of the second input behind those of the first") {
  GraphBuilder graph({8, 6, 3});
  const int more = graph.convolution("a", 0, 5, {.size = 3, .stride = 1, .padding = 1});
  REQUIRE(graph.layer(graph.concat(0, more)).output == ActivationShape{8, 6, 8});
}

TEST_CASE("a transposed convolution enlarges, and its weight is PyTorch's inputs x outputs") {
  GraphBuilder builder({7, 5, 6});
  const int four = builder.transposed_convolution(
      "four", 0, 3, {.window = {.size = 4, .stride = 2, .padding = 1}});
  CHECK(builder.layer(four).output == ActivationShape{14, 10, 3});
  const int three = builder.transposed_convolution(
      "three", four, 2, {.window = {.size = 3, .stride = 2, .padding = 1}});
  CHECK(builder.layer(three).output == ActivationShape{27, 19, 2});
  builder.softmax_cross_entropy(builder.linear("head", builder.flatten(three), 10));
  const Graph graph = builder.finish();
  const Parameter& weight = graph.parameters().at(4);
  CHECK(weight.name == "four.weight");
  CHECK(weight.shape == std::vector<std::int64_t>{6, 3, 4, 4});
  CHECK(weight.initial.value == Approx(1 / std::sqrt(3.0 * 16)));  // torch: the outputs are the fan
  CHECK(graph.parameters().at(5).initial.value == weight.initial.value);
}

TEST_CASE("parameters lie in the order in which backward finishes them, each on 64 bytes") {
  GraphBuilder builder({8, 8, 1});
  builder.softmax_cross_entropy(
      builder.linear("head", builder.flatten(builder.convolution("stem", 0, 3, {.size = 3})), 10));
  const Graph graph = builder.finish();
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

Graph text_graph() {
  GraphBuilder graph(TextShape{.vocabulary = 20, .positions = 64});
  const int words = graph.dropout(graph.layer_norm("norm", graph.embedding("e", 0, 32)), 0.1);
  const int mixed = graph.attention(graph.attention_projection("self", words, 32), 2, 0.1);
  const int sum = graph.add(words, graph.linear("out", mixed, 32, {.normal_deviation = 0.02}));
  const int first = graph.dropout(graph.tanh(graph.first_token(graph.gelu(sum))), 0.1);
  graph.softmax_cross_entropy(graph.linear("head", first, 2));
  return graph.finish();
}

TEST_CASE("layers of texts have a width for each token, up to the first one's") {
  const Graph graph = text_graph();
  CHECK(graph.layer(0).output == ActivationShape{1, 64, 0});
  CHECK(graph.layer(4).output == ActivationShape{1, 64, 96});
  CHECK(graph.layer(5).output == ActivationShape{1, 64, 32});
  CHECK(graph.logits() == ActivationShape{1, 1, 2});
  const Graph narrow = graph.at_length(32);
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    ActivationShape want = graph.layers()[i].output;
    if (want.width == 64) want.width = 32;
    CHECK(narrow.layers()[i].output == want);
  }
  // Each dropout has a mask of its own, numbered as for all positions.
  CHECK(std::get<layer::Dropout>(narrow.layer(3).kind).sample_stride == 64 * 32);
  CHECK(std::get<layer::Attention>(narrow.layer(5).kind).dropout_number == 1);
  CHECK(std::get<layer::Attention>(narrow.layer(5).kind).positions == 64);
  CHECK(narrow.arena_size() == graph.arena_size());
  CHECK_THROWS_AS(graph.at_length(96), std::logic_error);
}

TEST_CASE("query, key and value lie side by side, and embeddings come last in the arena") {
  const Graph graph = text_graph();
  const auto& parameters = graph.parameters();
  std::vector<std::string> names;
  for (const Parameter& one : parameters) names.push_back(one.name);
  CHECK(names == std::vector<std::string>{
                     "head.weight", "head.bias", "out.weight", "out.bias", "self.query.weight",
                     "self.key.weight", "self.value.weight", "self.query.bias", "self.key.bias",
                     "self.value.bias", "norm.weight", "norm.bias", "e.word_embeddings.weight",
                     "e.position_embeddings.weight", "e.token_type_embeddings.weight"});
  CHECK(parameters[5].offset == parameters[4].offset + 32 * 32);
  CHECK(parameters[6].offset == parameters[5].offset + 32 * 32);
  CHECK(parameters[8].offset == parameters[7].offset + 32);
  CHECK(parameters[12].shape == std::vector<std::int64_t>{20, 32});
  CHECK(parameters[13].shape == std::vector<std::int64_t>{66, 32});
  CHECK(parameters[12].decay);
  CHECK_FALSE(parameters[10].decay);
  CHECK(parameters[10].initial.value == 1);
  CHECK(parameters[2].initial.kind == InitialValues::Kind::normal);
  CHECK(parameters[3].initial.kind == InitialValues::Kind::constant);
  CHECK(parameters[0].initial.kind == InitialValues::Kind::uniform);
}

TEST_CASE("images too small for a window are refused with both sizes in the message") {
  GraphBuilder graph({2, 28, 1});
  REQUIRE_THROWS_WITH(graph.max_pool(0, {.size = 3, .stride = 1, .padding = 0}),
                      Catch::Contains("of size 3 meets 2 pixels"));
  REQUIRE_THROWS_AS(graph.convolution("a", 0, 1, {.size = 5}), DataError);
  REQUIRE_THROWS_AS(GraphBuilder({0, 28, 1}), DataError);
}

TEST_CASE("tables that cannot work are our own mistake") {
  GraphBuilder graph({8, 8, 1});
  REQUIRE_THROWS_AS(graph.linear("head", 0, 10), std::logic_error);
  const int half = graph.max_pool(0, {.size = 2, .stride = 2, .padding = 0});
  REQUIRE_THROWS_AS(graph.add(0, half), std::logic_error);
  REQUIRE_THROWS_AS(graph.concat(0, half), std::logic_error);
  REQUIRE_THROWS_AS(graph.finish(), std::logic_error);  // no loss
  REQUIRE_THROWS_AS(GraphBuilder(TextShape{.vocabulary = 9, .positions = 33}), std::logic_error);
  GraphBuilder text(TextShape{.vocabulary = 9, .positions = 32});
  const int words = text.embedding("e", 0, 48);
  REQUIRE_THROWS_AS(text.attention_projection("a", words, 20), std::logic_error);
  REQUIRE_THROWS_AS(text.attention(words, 2, 0), std::logic_error);
  REQUIRE_THROWS_AS(graph.first_token(0), std::logic_error);
}

TEST_CASE("a convolution's O,H,W,I is exported as PyTorch's O,I,H,W and imported back") {
  // 2 outputs, 3 inputs, 1 x 2 window, 4 floats into the arena.
  const Parameter parameter{"conv.weight", {2, 3, 1, 2}, ParameterLayout::conv_ohwi, 4, 12, true};
  std::vector<float> arena(20, -1.0F);
  for (int i = 0; i < 12; ++i) arena[static_cast<std::size_t>(4 + i)] = static_cast<float>(i);
  std::vector<float> out(12);
  export_parameter(parameter, arena, out);
  // For output 0 the arena holds pixel 0: inputs 0 1 2, pixel 1: inputs 3 4 5.
  REQUIRE(out == std::vector<float>{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11});
  std::vector<float> back(20, -1.0F);
  import_parameter(parameter, out, back);
  REQUIRE(back == arena);
}

TEST_CASE("a linear weight is exported as it is") {
  const Parameter parameter{"fc.weight", {2, 2}, ParameterLayout::as_pytorch, 1, 4, true};
  const std::vector<float> arena{9, 1, 2, 3, 4, 9};
  std::vector<float> out(4);
  export_parameter(parameter, arena, out);
  REQUIRE(out == std::vector<float>{1, 2, 3, 4});
}

}  // namespace

}  // namespace ddprun::trainer
