// Values in two bytes, bf16 or fp16: each layer does what the layer on floats does with the same
// values, but for the rounding of what it stores.
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/skip.hpp"
#include "tests/unit/trainer/layers/layer_device.hpp"
#include "tests/unit/trainer/layers/layer_run.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kHalfSamples = 3;
constexpr int kWidth = 8;                     // of texts
constexpr double kParameterTolerance = 1e-5;  // gradients of parameters are floats

struct Kind {
  std::string name;
  LayerKind kind;
  std::vector<ActivationShape> inputs;
  ActivationShape output;
  std::vector<std::size_t> parameters = {};
  double slope_bits = 0.5;  ///< by so many bits may gradients of inputs differ
};

std::vector<Kind> kinds() {
  const Window three{.size = 3, .stride = 1, .padding = 1};
  const Window halve{.size = 2, .stride = 2};
  const ActivationShape image{6, 8, 16};
  const ActivationShape half{3, 4, 16};
  const ActivationShape vector{1, 1, 40};
  const ActivationShape text{1, kWidth, 40};
  return {
      {"convolution", layer::Convolution{.window = three}, {image}, {6, 8, 32}, {32 * 9 * 16, 32}},
      {"convolution without bias",
       layer::Convolution{.window = three, .has_bias = false},
       {{6, 8, 3}},
       {6, 8, 5},
       {5 * 9 * 3}},
      // As where a ResNet's path without layers gets narrower.
      {"convolution of single pixels with a stride",
       layer::Convolution{.window = {.size = 1, .stride = 2}, .has_bias = false},
       {image},
       {3, 4, 24},
       {24 * 16}},
      {"convolution of single pixels with a stride and odd sides",
       layer::Convolution{.window = {.size = 1, .stride = 2}, .has_bias = false},
       {{5, 7, 9}},
       {3, 4, 11},
       {11 * 9}},
      {"transposed convolution",
       layer::TransposedConvolution{.window = {.size = 4, .stride = 2, .padding = 1}},
       {half},
       {6, 8, 8},
       {16 * 16 * 8, 8}},
      {"linear", layer::Linear{}, {vector}, {1, 1, 24}, {24 * 40, 24}},
      {"relu", layer::Relu{}, {image}, image},
      {"max-pooling", layer::MaxPool{halve}, {image}, half},
      {"max-pooling with overlap",
       layer::MaxPool{{.size = 3, .stride = 2, .padding = 1}},
       {image},
       half},
      {"adaptive pooling", layer::AdaptiveAveragePool{}, {image}, {5, 3, 16}},
      {"batch norm", layer::BatchNorm{false}, {image}, image, {16, 16, 16, 16}},
      {"batch norm and relu", layer::BatchNorm{true}, {image}, image, {16, 16, 16, 16}},
      {"dropout", layer::Dropout{.probability = 0.3}, {image}, image},
      {"dropout of channels",
       layer::Dropout{.probability = 0.3, .whole_channels = true},
       {image},
       image},
      {"flatten", layer::Flatten{}, {image}, {1, 1, 6 * 8 * 16}},
      {"add", layer::Add{}, {image, image}, image},
      {"concat", layer::Concat{}, {image, {6, 8, 7}}, {6, 8, 23}},
      {"upsample", layer::Upsample{}, {half}, image},
      {"embedding",
       layer::Embedding{.vocabulary = 9, .positions = kWidth},
       {{1, kWidth, 0}},
       text,
       {9 * 40, (kWidth + 2) * 40, 40}},
      {"layer norm", layer::LayerNorm{}, {text}, text, {40, 40}},
      {"layer norm of an odd number of channels",
       layer::LayerNorm{},
       {{1, kWidth, 37}},
       {1, kWidth, 37},
       {37, 37}},
      {"gelu", layer::Gelu{}, {image}, image},
      // 1 - output^2, of an output that is rounded
      {"tanh", layer::Tanh{}, {image}, image, {}, 0.75},
      {"projection of attention",
       layer::AttentionProjection{},
       {text},
       {1, kWidth, 120},
       // As in an arena: three weights without a gap, then three biases.
       {3 * 1600, 0, 0, 3 * 40, 0, 0}},
      {"attention",
       layer::Attention{.heads = 5, .dropout = 0.1, .positions = kWidth},
       {{1, kWidth, 120}},
       text},
      {"first token", layer::FirstToken{}, {text}, vector},
      {"softmax cross-entropy", layer::SoftmaxCrossEntropy{}, {vector}, {}},
      {"binary cross-entropy", layer::BinaryCrossEntropy{3}, {{6, 8, 1}}, {}},
  };
}

/// A type of two bytes that the device stores.
struct HalfType {
  std::string name;
  Storage storage;
  float (*round)(float);
  double half_bit;  ///< of values up to 1
};

/// A CPU stores bf16 where it has instructions for it, and no fp16; a GPU both.
std::vector<HalfType> half_types() {
  std::vector<HalfType> types;
  if (test::device().storage(Precision::bf16) == Storage::bf16)
    types.push_back({"bf16", Storage::bf16, round_to_bfloat16, 1.0 / 256});
  if (test::device().storage(Precision::fp16) == Storage::fp16)
    types.push_back({"fp16", Storage::fp16, round_to_half, 1.0 / 2048});
  if (types.empty()) ddprun::test::skip("no instructions for bf16 on this CPU");
  return types;
}

/// How far a gradient of parameter `k` may be from that of the layer on floats.
double parameter_tolerance(const Kind& kind, std::size_t k, const HalfType& type) {
  const bool is_weight_of_convolution =
      k == 0 && (std::holds_alternative<layer::Convolution>(kind.kind) ||
                 std::holds_alternative<layer::TransposedConvolution>(kind.kind));
  const bool is_rounded = is_weight_of_convolution && test::libraries().round_weight_gradients;
  return kParameterTolerance + (is_rounded ? type.half_bit : 0);
}

std::vector<float> rounded_values(const HalfType& type, std::size_t count, std::uint32_t seed) {
  std::vector<float> values = test::uniform_values(count, seed);
  for (float& value : values) value = type.round(value);
  return values;
}

std::vector<double> doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

/// Values of a type of two bytes that every storage is given.
struct Given {
  HalfType type;
  std::array<std::int32_t, kHalfSamples> labels{3, 0, 39};
  std::array<std::int32_t, kHalfSamples> lengths{kWidth, 5, 1};
  std::array<std::int32_t, kHalfSamples * kWidth> tokens{0, 5, 5, 8, 3, 5, 1, 2,  //
                                                         0, 7, 5, 2, 2, 0, 0, 0, 4};
  std::vector<float> masks = std::vector<float>(std::size_t{kHalfSamples} * 6 * 8);
  StepState state;
  Counters counters;

  explicit Given(HalfType half) : type(std::move(half)) {
    for (std::size_t i = 0; i < masks.size(); i += 3) masks[i] = 1.0F;
    state.scaler.scale = 4096;  // of a loss: else its gradients are small
  }

  test::LayerRun run(const Kind& kind, Storage storage, GradientUse use = GradientUse::overwrite) {
    OperationShape shape{.batch = kHalfSamples,
                         .inputs = {},
                         .output = kind.output,
                         .parameter_counts = kind.parameters,
                         .storage = storage};
    for (const ActivationShape& input : kind.inputs) shape.inputs.push_back({input, use});
    test::LayerRun layer(kind.kind, shape);
    std::uint32_t seed = 1;
    for (const ActivationShape& input : kind.inputs)
      layer.inputs.push_back(rounded_values(type, kHalfSamples * input.count(), seed++));
    for (const std::size_t count : kind.parameters)
      layer.parameters.push_back(rounded_values(type, count, seed++));
    layer.output_gradient = rounded_values(type, kHalfSamples * kind.output.count(), seed);
    layer.pass = {.count = kHalfSamples,
                  .labels = labels.data(),
                  .masks = masks.data(),
                  .tokens = tokens.data(),
                  .lengths = lengths.data(),
                  .counters = &counters,
                  .state = &state};
    layer.run();
    return layer;
  }
};

TEST_CASE("every layer on values of two bytes agrees with the layer on floats to their precision") {
  for (const HalfType& type : half_types()) {
    const double half_bit = type.half_bit;
    for (const Kind& kind : kinds()) {
      INFO(kind.name << " in " << type.name);
      Given given(type);
      const test::LayerRun floats = given.run(kind, Storage::fp32);
      const std::int64_t loss = given.counters.loss;
      given.counters = {};
      const test::LayerRun halves = given.run(kind, type.storage);
      if (is_loss(kind.kind)) {
        CHECK(loss != 0);
        CHECK(given.counters.loss == loss);  // of the same logits
      } else {
        // A library may round a convolution before the bias is added, as PyTorch does, and a device
        // the probabilities of attention.
        const bool rounds_twice = kind.name == "convolution" ||
                                  kind.name == "transposed convolution" || kind.name == "attention";
        CHECK(test::distance(halves.output, doubles(floats.output)) <
              (rounds_twice ? 2 : 1) * half_bit);
      }
      for (std::size_t k = 0; k < kind.inputs.size(); ++k) {
        INFO("input " << k);
        CHECK(test::distance(halves.input_gradients[k], doubles(floats.input_gradients[k])) <
              kind.slope_bits * 2 * half_bit);
        for (const float value : halves.input_gradients[k]) REQUIRE(value == type.round(value));
      }
      for (std::size_t k = 0; k < kind.parameters.size(); ++k) {
        INFO("parameter " << k);
        CHECK(
            test::distance(halves.parameter_gradients[k], doubles(floats.parameter_gradients[k])) <
            parameter_tolerance(kind, k, type));
      }
    }
  }
}

TEST_CASE("gradients that accumulate are added in two bytes, whether a layer knows it or not") {
  for (const HalfType& type : half_types()) {
    for (const Kind& kind : kinds()) {
      if (kind.name != "convolution" && kind.name != "adaptive pooling" && kind.name != "add")
        continue;
      INFO(kind.name << " in " << type.name);
      Given given(type);
      const test::LayerRun first = given.run(kind, type.storage);
      const test::LayerRun added = given.run(kind, type.storage, GradientUse::accumulate);
      for (std::size_t i = 0; i < first.input_gradients[0].size(); ++i)  // 7 was there before
        REQUIRE(added.input_gradients[0][i] == type.round(7.0F + first.input_gradients[0][i]));
    }
  }
}

TEST_CASE("a loss that is not finite stays so in two bytes") {
  for (const HalfType& type : half_types()) {
    Given given(type);
    for (const Kind& kind : kinds()) {
      if (!is_loss(kind.kind)) continue;
      INFO(kind.name << " in " << type.name);
      test::LayerRun layer = given.run(kind, type.storage);
      given.counters = {};
      layer.inputs[0][5] = std::numeric_limits<float>::quiet_NaN();
      layer.run();
      CHECK(given.counters.not_finite == 1);
    }
  }
}

}  // namespace
}  // namespace ddprun::trainer
