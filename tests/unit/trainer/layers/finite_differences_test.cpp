// The gradients of every kind of layer beside finite differences of its formula, both in double
// precision.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "tests/unit/trainer/layers/layer_formulas.hpp"
#include "tests/unit/trainer/layers/layer_run.hpp"

namespace ddprun::trainer {
namespace {

using namespace test;
using Formula = std::function<Values(const Point&)>;

constexpr double kDifference = 1e-5;
constexpr std::size_t kCompared = 2;  // parameters; batch norm's further ones are statistics

struct LayerCase {
  std::string name;
  LayerKind kind;
  std::vector<ActivationShape> inputs;
  ActivationShape output;
  std::vector<std::size_t> parameters;
  Formula formula;
};

Values in_double(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// Derivatives of sum(slope * formula) by the values of one input or parameter.
Values differences(const LayerCase& one, Point point, bool parameter, std::size_t index,
                   const Values& slopes) {
  const auto sum = [&] {
    const Values output = one.formula(point);
    double total = 0;
    for (std::size_t i = 0; i < output.size(); ++i) total += output[i] * slopes[i];
    return total;
  };
  Values& values = parameter ? point.parameters[index] : point.inputs[index];
  Values gradient;
  for (double& value : values) {
    const double before = value;
    value = before + kDifference;
    const double above = sum();
    value = before - kDifference;
    const double below = sum();
    value = before;
    gradient.push_back((above - below) / (2 * kDifference));
  }
  return gradient;
}

const std::vector<float> kMasks{1, 0, 0.25F, 1, 0, 0, 1, 0.75F, 1, 0, 0, 1};

std::vector<LayerCase> cases() {
  const ActivationShape five{5, 4, 3};
  const ActivationShape pooled{2, 2, 3};
  const Window same{.size = 3, .stride = 1, .padding = 1};
  const Window strided{.size = 3, .stride = 2, .padding = 1};
  const Window two{.size = 2, .stride = 2, .padding = 0};
  const Window four{.size = 4, .stride = 2, .padding = 1};
  const ActivationShape slid{3, 2, 4};
  const ActivationShape large{10, 8, 2};
  const auto shape = [](ActivationShape in, ActivationShape out, Window window) {
    return LayerShape{kBatch, in, out, window};
  };
  const layer::Dropout values{.probability = 0.4};
  const layer::Dropout channels{.probability = 0.4, .whole_channels = true};
  const auto relu = [](double value) { return std::max(value, 0.0); };
  using P = const Point&;
  return {
      {"convolution",
       layer::Convolution{.window = strided},
       {five},
       slid,
       {4 * 27, 4},
       [=](P p) { return convolution_formula(shape(five, slid, strided), p); }},
      {"convolution without bias",
       layer::Convolution{.window = same, .has_bias = false},
       {five},
       {5, 4, 2},
       {2 * 27},
       [=](P p) {
         return convolution_formula(shape(five, {5, 4, 2}, same), p);
       }},
      {"convolution of single pixels with a stride",
       layer::Convolution{.window = {.size = 1, .stride = 2}, .has_bias = false},
       {five},
       {3, 2, 4},
       {4 * 3},
       [=](P p) {
         return convolution_formula(shape(five, {3, 2, 4}, Window{.size = 1, .stride = 2}), p);
       }},
      {"transposed convolution",
       layer::TransposedConvolution{.window = four},
       {five},
       large,
       {3 * 16 * 2, 2},
       [=](P p) { return transposed_formula(shape(five, large, four), p); }},
      {"linear",
       layer::Linear{},
       {{1, 1, 7}},
       {1, 1, 5},
       {35, 5},
       [=](P p) {
         return convolution_formula(shape({1, 1, 7}, {1, 1, 5}, Window{}), p);
       }},
      {"ReLU", layer::Relu{}, {five}, five, {}, [=](P p) { return each_formula(p, relu); }},
      {"max-pooling",
       layer::MaxPool{two},
       {five},
       pooled,
       {},
       [=](P p) { return max_pool_formula(shape(five, pooled, two), p); }},
      {"max-pooling with overlap",
       layer::MaxPool{strided},
       {five},
       {3, 2, 3},
       {},
       [=](P p) {
         return max_pool_formula(shape(five, {3, 2, 3}, strided), p);
       }},
      {"adaptive average pooling",
       layer::AdaptiveAveragePool{},
       {five},
       {3, 3, 3},
       {},
       [=](P p) {
         return adaptive_formula(five, {3, 3, 3}, p);
       }},
      {"batch norm",
       layer::BatchNorm{false},
       {five},
       five,
       {3, 3, 3, 3},
       [=](P p) { return batch_norm_formula(p, false); }},
      {"batch norm and ReLU",
       layer::BatchNorm{true},
       {five},
       five,
       {3, 3, 3, 3},
       [=](P p) { return batch_norm_formula(p, true); }},
      {"dropout", values, {five}, five, {}, [=](P p) { return dropout_formula(five, values, p); }},
      {"2-D dropout",
       channels,
       {five},
       five,
       {},
       [=](P p) { return dropout_formula(five, channels, p); }},
      {"flatten",
       layer::Flatten{},
       {five},
       {1, 1, 60},
       {},
       [=](P p) { return flatten_formula(five, p); }},
      {"add",
       layer::Add{},
       {five, five},
       five,
       {},
       [](P p) {
         Values sum = p.inputs[0];
         for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += p.inputs[1][i];
         return sum;
       }},
      {"upsample",
       layer::Upsample{},
       {five},
       {10, 8, 3},
       {},
       [=](P p) { return upsample_formula(five, p); }},
      {"concat",
       layer::Concat{},
       {five, {5, 4, 2}},
       {5, 4, 5},
       {},
       [=](P p) {
         return concat_formula(five, {5, 4, 2}, p);
       }},
      {"softmax cross-entropy",
       layer::SoftmaxCrossEntropy{},
       {{1, 1, 4}},
       {0, 0, 0},
       {},
       [](P p) { return cross_entropy(4, p); }},
      {"binary cross-entropy",
       layer::BinaryCrossEntropy{3},
       {{2, 3, 1}},
       {0, 0, 0},
       {},
       [](P p) { return mask_loss(kMasks, 3, p); }},
  };
}

TEST_CASE("the gradients of every layer are the finite differences of its formula in double") {
  std::vector<bool> seen(std::variant_size_v<LayerKind>, false);
  for (const LayerCase& one : cases()) {
    INFO(one.name);
    seen[one.kind.index()] = true;
    OperationShape shape{
        .batch = kBatch, .inputs = {}, .output = one.output, .parameter_counts = one.parameters};
    for (const ActivationShape& input : one.inputs)
      shape.inputs.push_back({input, GradientUse::overwrite});
    test::LayerRun layer(one.kind, shape);
    std::uint32_t seed = 1;
    Point point;
    for (const ActivationShape& input : one.inputs) {
      layer.inputs.push_back(test::uniform_values(size_of(input), seed++));
      for (float& value : layer.inputs.back())  // away from the kink of a ReLU
        value += value < 0 ? -0.01F : 0.01F;
      point.inputs.push_back(in_double(layer.inputs.back()));
    }
    for (const std::size_t count : one.parameters) {
      layer.parameters.push_back(test::uniform_values(count, seed++));
      point.parameters.push_back(in_double(layer.parameters.back()));
    }
    StepState state;
    Counters counters;
    layer.pass = {.count = kBatch,
                  .labels = kLabels.data(),
                  .masks = kMasks.data(),
                  .counters = &counters,
                  .state = &state,
                  .seed = kSeed,
                  .batch = kBatch};
    const bool is_last = is_loss(one.kind);
    layer.output_gradient = test::uniform_values(size_of(one.output), seed);
    const Values slopes = is_last ? Values{1} : in_double(layer.output_gradient);
    layer.run();
    for (std::size_t k = 0; k < point.inputs.size(); ++k) {
      INFO("input " << k);
      CHECK(test::distance(layer.input_gradients[k], differences(one, point, false, k, slopes)) <
            2e-6);
    }
    for (std::size_t k = 0; k < std::min(point.parameters.size(), kCompared); ++k) {
      INFO("parameter " << k);
      CHECK(test::distance(layer.parameter_gradients[k], differences(one, point, true, k, slopes)) <
            2e-6);
    }
    if (one.parameters.empty() || !test::device().accumulates_gradients()) continue;
    // A second shard's are added, and change no gradient of an input.
    const auto input_gradients = layer.input_gradients;
    auto gradients = layer.parameter_gradients;
    layer.accumulates = true;
    layer.run();
    CHECK(layer.input_gradients == input_gradients);
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      INFO("parameter " << k);
      for (float& value : gradients[k]) value += test::LayerRun::kThere;
      CHECK(test::distance(layer.parameter_gradients[k], in_double(gradients[k])) < 1e-6);
    }
  }
  for (const LayerKind& none : {LayerKind(layer::Images{}), LayerKind(layer::Tokens{})})
    seen[none.index()] = true;
  // With lengths, in text_layers_test.cpp and attention_test.cpp.
  for (const LayerKind& text :
       {LayerKind(layer::Embedding{}), LayerKind(layer::LayerNorm{}), LayerKind(layer::Gelu{}),
        LayerKind(layer::Tanh{}), LayerKind(layer::AttentionProjection{}),
        LayerKind(layer::Attention{}), LayerKind(layer::FirstToken{})})
    seen[text.index()] = true;
  CHECK(std::all_of(seen.begin(), seen.end(), [](bool one) { return one; }));
}

}  // namespace
}  // namespace ddprun::trainer
