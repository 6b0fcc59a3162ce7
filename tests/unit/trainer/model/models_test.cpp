// The tables of the bundled models: PyTorch's names, shapes and counts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <string>

#include "trainer/error.hpp"
#include "trainer/model/model.hpp"

namespace ddprun::trainer {
namespace {

/// Numbers that an optimizer changes.
std::size_t weights_in(const Graph& graph) {
  std::size_t count = 0;
  for (const Parameter& parameter : graph.parameters())
    if (parameter.role == ParameterRole::weight) count += parameter.count;
  return count;
}

const Parameter& named(const Graph& graph, const std::string& name) {
  const auto found = std::find_if(graph.parameters().begin(), graph.parameters().end(),
                                  [&](const Parameter& one) { return one.name == name; });
  REQUIRE(found != graph.parameters().end());
  return *found;
}

TEST_CASE("resnet18 has torchvision's parameters") {
  const Graph graph = make_graph({.model = ModelName::resnet18,
                                  .shape = {224, 224, 3},
                                  .classes = 1000,
                                  .stem = Stem::imagenet});
  CHECK(weights_in(graph) == 11'689'512);
  CHECK(graph.parameters().size() == 102);  // and 20 counters of batches
  CHECK(named(graph, "conv1.weight").shape == std::vector<std::int64_t>{64, 3, 7, 7});
  CHECK(named(graph, "layer2.0.downsample.0.weight").shape ==
        std::vector<std::int64_t>{128, 64, 1, 1});
  CHECK(named(graph, "layer4.1.bn2.running_var").role == ParameterRole::statistic);
  CHECK(named(graph, "layer4.1.bn2.running_var").initial.value == 1);
  CHECK_FALSE(named(graph, "bn1.weight").decay);
  CHECK(named(graph, "layer1.0.conv1.weight").initial.kind == InitialValues::Kind::normal);
  CHECK(named(graph, "layer1.0.conv1.weight").initial.value == Approx(std::sqrt(2.0 / 576)));
  CHECK(named(graph, "fc.weight").shape == std::vector<std::int64_t>{1000, 512});
}

TEST_CASE("alexnet has torchvision's parameters, and takes images from 63 pixels on") {
  const Graph graph =
      make_graph({.model = ModelName::alexnet, .shape = {224, 224, 3}, .classes = 1000});
  CHECK(weights_in(graph) == 61'100'840);
  CHECK(named(graph, "features.10.weight").shape == std::vector<std::int64_t>{256, 256, 3, 3});
  CHECK(named(graph, "classifier.1.weight").shape == std::vector<std::int64_t>{4096, 9216});
  CHECK(weights_in(make_graph(
            {.model = ModelName::alexnet, .shape = {63, 63, 3}, .classes = 10})) == 57'044'810);
  CHECK_THROWS_WITH(
      make_graph({.model = ModelName::alexnet, .shape = {62, 62, 3}, .classes = 10}),
      Catch::Contains("images of 62x62x3 are too small") && Catch::Contains("at least 63x63x3"));
  CHECK_THROWS_WITH(make_graph({.model = ModelName::alexnet, .shape = {28, 70, 1}, .classes = 10}),
                    Catch::Contains("images of 28x70x1") && Catch::Contains("63x63x1"));
}

TEST_CASE("the small stem keeps images of 28 pixels large") {
  const Graph graph =
      make_graph({.model = ModelName::resnet18, .shape = {28, 28, 1}, .classes = 10});
  CHECK(named(graph, "conv1.weight").shape == std::vector<std::int64_t>{64, 1, 3, 3});
  const auto pool =
      std::find_if(graph.layers().begin(), graph.layers().end(), [](const Layer& one) {
        return std::holds_alternative<layer::AdaptiveAveragePool>(one.kind);
      });
  REQUIRE(pool != graph.layers().end());
  CHECK(graph.layer(pool->inputs[0]).output == ActivationShape{4, 4, 512});
}

TEST_CASE("unet16 has the parameters of VGG16's convolutions and of its decoder") {
  const Graph graph = make_graph({.model = ModelName::unet16, .shape = {448, 448, 3}});
  CHECK(weights_in(graph) == 29'306'465);
  CHECK(graph.target() == Target::mask);
  CHECK(graph.logits() == ActivationShape{448, 448, 1});
  std::size_t encoder = 0;
  for (const Parameter& parameter : graph.parameters())
    if (parameter.name.starts_with("features.")) encoder += parameter.count;
  CHECK(encoder == 14'714'688);  // torchvision's vgg16().features
  CHECK(named(graph, "features.28.weight").shape == std::vector<std::int64_t>{512, 512, 3, 3});
  CHECK(named(graph, "features.0.weight").initial.value == Approx(std::sqrt(2.0 / 576)));
  CHECK(named(graph, "features.0.bias").initial.kind == InitialValues::Kind::constant);
  CHECK(named(graph, "center.block.1.conv.weight").shape ==
        std::vector<std::int64_t>{512, 512, 3, 3});
  CHECK(named(graph, "dec5.block.1.conv.weight").shape ==
        std::vector<std::int64_t>{512, 768, 3, 3});
  CHECK(named(graph, "dec3.block.2.conv.weight").shape == std::vector<std::int64_t>{64, 256, 3, 3});
  CHECK(named(graph, "dec2.block.1.conv.weight").shape ==
        std::vector<std::int64_t>{128, 192, 3, 3});
  CHECK(named(graph, "dec1.conv.weight").shape == std::vector<std::int64_t>{32, 96, 3, 3});
  CHECK(named(graph, "dec1.conv.weight").initial.kind == InitialValues::Kind::uniform);
  CHECK(named(graph, "final.weight").shape == std::vector<std::int64_t>{1, 32, 1, 1});
}

TEST_CASE("unet16's other decoder has transposed convolutions") {
  const Graph graph =
      make_graph({.model = ModelName::unet16, .shape = {64, 32, 1}, .decoder = Decoder::deconv});
  CHECK(graph.logits() == ActivationShape{64, 32, 1});
  CHECK(named(graph, "center.block.0.conv.weight").shape ==
        std::vector<std::int64_t>{512, 512, 3, 3});
  CHECK(named(graph, "center.block.1.weight").shape == std::vector<std::int64_t>{512, 256, 4, 4});
  CHECK(named(graph, "dec2.block.1.weight").shape == std::vector<std::int64_t>{128, 32, 4, 4});
  CHECK(named(graph, "features.0.weight").shape == std::vector<std::int64_t>{64, 1, 3, 3});
}

TEST_CASE("unet16 names the sizes where a side is no multiple of 32") {
  const auto with = [](int height, int width) {
    return make_graph({.model = ModelName::unet16, .shape = {height, width, 3}});
  };
  CHECK_NOTHROW(with(32, 96));
  CHECK_THROWS_WITH(with(450, 448), Catch::Contains("images of 450x448x3") &&
                                        Catch::Contains("multiples of 32: use 480x448"));
  CHECK_THROWS_AS(with(28, 28), DataError);
}

TEST_CASE(
    "the U-Nets over ResNets have the parameters of torchvision's stages and of the decoder") {
  struct Case {
    ModelName model;
    std::size_t bilinear, deconv, encoder;
    std::int64_t bottom;  // channels
  };
  // The encoders: torchvision's resnet34 and resnet101 without their last layer.
  for (const Case& c :
       {Case{ModelName::unet_resnet34, 34'604'897, 37'615'457, 21'284'672, 512},
        Case{ModelName::unet_resnet101, 74'621'025, 77'631'585, 42'500'160, 2048}}) {
    const Graph graph = make_graph({.model = c.model, .shape = {448, 448, 3}});
    CHECK(weights_in(graph) == c.bilinear);
    CHECK(weights_in(make_graph(
              {.model = c.model, .shape = {64, 128, 3}, .decoder = Decoder::deconv})) == c.deconv);
    CHECK(graph.target() == Target::mask);
    CHECK(graph.logits() == ActivationShape{448, 448, 1});
    std::size_t encoder = 0;
    for (const Parameter& parameter : graph.parameters()) {
      const bool is_encoder = parameter.name.starts_with("conv1.") ||
                              parameter.name.starts_with("bn1.") ||
                              parameter.name.starts_with("layer");
      if (is_encoder && parameter.role == ParameterRole::weight) encoder += parameter.count;
    }
    CHECK(encoder == c.encoder);
    CHECK(named(graph, "center.block.1.conv.weight").shape ==
          std::vector<std::int64_t>{512, c.bottom, 3, 3});
    CHECK(named(graph, "dec2.block.2.conv.weight").shape ==
          std::vector<std::int64_t>{128, 128, 3, 3});
    CHECK(named(graph, "dec1.block.2.conv.weight").shape ==
          std::vector<std::int64_t>{32, 128, 3, 3});
    CHECK(named(graph, "dec0.conv.weight").initial.kind == InitialValues::Kind::uniform);
    CHECK(named(graph, "conv1.weight").initial.kind == InitialValues::Kind::normal);
  }
}

TEST_CASE("a bottleneck has its stride in the 3x3 convolution, and four times the channels") {
  const Graph graph =
      make_graph({.model = ModelName::unet_resnet101, .shape = {64, 64, 3}, .dropout = 0.0});
  const auto layer = [&](const std::string& name) {
    const auto found = std::find_if(graph.layers().begin(), graph.layers().end(),
                                    [&](const Layer& one) { return one.name == name; });
    REQUIRE(found != graph.layers().end());
    return *found;
  };
  CHECK(layer("layer1.0.downsample.0").output == ActivationShape{16, 16, 256});
  CHECK(layer("layer2.0.conv1").output == ActivationShape{16, 16, 128});
  CHECK(layer("layer2.0.conv2").output == ActivationShape{8, 8, 128});
  CHECK(layer("layer3.22.conv3").output == ActivationShape{4, 4, 1024});
}

TEST_CASE(
    "the U-Nets over ResNets drop whole channels before the last layer, unless asked not to") {
  const auto dropout_in = [](std::optional<double> dropout) {
    const Graph graph =
        make_graph({.model = ModelName::unet_resnet34, .shape = {64, 64, 1}, .dropout = dropout});
    const Layer& before = graph.layer(graph.layers()[graph.layers().size() - 2].inputs.at(0));
    const auto* const kind = std::get_if<layer::Dropout>(&before.kind);
    if (kind == nullptr) return 0.0;
    CHECK(kind->whole_channels);
    return kind->probability;
  };
  CHECK(dropout_in({}) == 0.2);
  CHECK(dropout_in(0.4) == 0.4);
  CHECK(dropout_in(0.0) == 0.0);
}

TEST_CASE("the U-Nets over ResNets need sides that are multiples of 64") {
  const auto with = [](int height, int width) {
    return make_graph({.model = ModelName::unet_resnet101, .shape = {height, width, 3}});
  };
  CHECK_NOTHROW(with(64, 128));
  CHECK_THROWS_WITH(with(96, 64), Catch::Contains("images of 96x64x3 do not fit "
                                                  "unet-resnet101") &&
                                      Catch::Contains("multiples of 64: use 128x64"));
}

TEST_CASE(
    "initial weights may be normal with one deviation, with biases of 0 and norms as before") {
  const Graph graph =
      make_graph({.model = ModelName::unet_resnet34, .shape = {64, 64, 1}, .normal_init = 0.01});
  for (const char* name : {"conv1.weight", "dec5.block.1.conv.weight", "final.weight"}) {
    CHECK(named(graph, name).initial.kind == InitialValues::Kind::normal);
    CHECK(named(graph, name).initial.value == 0.01);
  }
  CHECK(named(graph, "final.bias").initial.kind == InitialValues::Kind::constant);
  CHECK(named(graph, "final.bias").initial.value == 0);
  CHECK(named(graph, "bn1.weight").initial.value == 1);
  CHECK(named(graph, "bn1.running_var").initial.value == 1);
  const Graph linear = make_graph(
      {.model = ModelName::lenet, .shape = {28, 28, 1}, .classes = 10, .normal_init = 0.5});
  CHECK(named(linear, "fc1.weight").initial.value == 0.5);
}

TEST_CASE("textclf has the parameters of RoBERTa with a head for classes") {
  const auto with = [](TextSize size) {
    return make_graph({.model = ModelName::textclf,
                       .classes = 2,
                       .dropout = 0.1,
                       .vocabulary = 54,
                       .size = size});
  };
  const Graph base = with(TextSize::base);
  CHECK(weights_in(base) == 124'647'170);  // transformers' RobertaForSequenceClassification
  CHECK(base.parameters().size() == 201);
  CHECK(base.text().vocabulary == 50'265);
  CHECK(named(base, "roberta.embeddings.word_embeddings.weight").shape ==
        std::vector<std::int64_t>{50265, 768});
  CHECK(named(base, "roberta.embeddings.position_embeddings.weight").shape ==
        std::vector<std::int64_t>{514, 768});
  CHECK(named(base, "roberta.embeddings.token_type_embeddings.weight").shape ==
        std::vector<std::int64_t>{1, 768});
  CHECK(named(base, "roberta.embeddings.LayerNorm.weight").initial.value == 1);
  CHECK(named(base, "roberta.encoder.layer.11.attention.self.query.weight").shape ==
        std::vector<std::int64_t>{768, 768});
  CHECK(named(base, "roberta.encoder.layer.0.attention.output.dense.weight").initial.value == 0.02);
  CHECK_FALSE(named(base, "roberta.encoder.layer.0.attention.output.LayerNorm.weight").decay);
  CHECK(named(base, "roberta.encoder.layer.3.intermediate.dense.weight").shape ==
        std::vector<std::int64_t>{3072, 768});
  CHECK(named(base, "roberta.encoder.layer.3.output.dense.bias").initial.value == 0);
  CHECK(named(base, "roberta.encoder.layer.3.output.LayerNorm.bias").count == 768);
  CHECK(named(base, "classifier.dense.weight").initial.value == 0.02);
  CHECK(named(base, "classifier.out_proj.weight").shape == std::vector<std::int64_t>{2, 768});
  CHECK(weights_in(with(TextSize::large)) == 355'361'794);
  const Graph tiny = with(TextSize::tiny);
  CHECK(named(tiny, "roberta.embeddings.word_embeddings.weight").shape ==
        std::vector<std::int64_t>{54, 128});
  CHECK(weights_in(tiny) == 486'402);
}

TEST_CASE("no classifier takes fewer than two classes") {
  CHECK_THROWS_AS(make_graph({ModelName::resnet18, {28, 28, 1}, 1}), DataError);
}

}  // namespace
}  // namespace ddprun::trainer
