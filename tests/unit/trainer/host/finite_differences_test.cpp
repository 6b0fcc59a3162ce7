// The gradients of every kind of layer beside finite differences of its formula, both in double
// precision. The formulas are written down here once more, as plainly as possible.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/trainer/host/layer_run.hpp"
#include "tests/unit/trainer/host/reference_layers.hpp"
#include "trainer/compute/dropout_ops.hpp"

namespace ddprun::trainer {
namespace {

using Values = std::vector<double>;
using test::at;
using test::LayerShape;

/// Inputs and parameters of a layer, moved by the finite differences.
struct Point {
  std::vector<Values> inputs, parameters;
};
using Formula = std::function<Values(const Point&)>;

constexpr int kBatch = 2;
constexpr int kSeed = 42;
constexpr double kStep = 1e-5;
constexpr std::size_t kCompared = 2;  // parameters; batch norm's further ones are statistics

std::size_t size_of(const ActivationShape& shape) { return kBatch * shape.count(); }

Values convolution(const LayerShape& shape, const Point& p) {
  Values output(size_of(shape.output));
  const ActivationShape kernel{shape.window.size, shape.window.size, shape.input.channels};
  test::for_each_place(shape, [&](int n, int y, int x, int iy, int ix, int ky, int kx) {
    for (int o = 0; o < shape.output.channels; ++o)
      for (int i = 0; i < shape.input.channels; ++i)
        output[at(shape.output, n, y, x, o)] +=
            p.inputs[0][at(shape.input, n, iy, ix, i)] * p.parameters[0][at(kernel, o, ky, kx, i)];
  });
  if (p.parameters.size() > 1)
    for (std::size_t i = 0; i < output.size(); ++i)
      output[i] += p.parameters[1][i % p.parameters[1].size()];
  return output;
}

/// Its geometry is that of the convolution from its output to its input.
Values transposed(const LayerShape& shape, const Point& p) {
  Values output(size_of(shape.output));
  const ActivationShape kernel{shape.window.size, shape.window.size, shape.output.channels};
  const LayerShape mirrored{kBatch, shape.output, shape.input, shape.window};
  test::for_each_place(mirrored, [&](int n, int iy, int ix, int y, int x, int ky, int kx) {
    for (int i = 0; i < shape.input.channels; ++i)
      for (int o = 0; o < shape.output.channels; ++o)
        output[at(shape.output, n, y, x, o)] +=
            p.inputs[0][at(shape.input, n, iy, ix, i)] * p.parameters[0][at(kernel, i, ky, kx, o)];
  });
  for (std::size_t i = 0; i < output.size(); ++i)
    output[i] += p.parameters[1][i % p.parameters[1].size()];
  return output;
}

Values pool(const LayerShape& shape, const Point& p, bool maximum) {
  Values output(size_of(shape.output), maximum ? -1e9 : 0);
  test::for_each_place(shape, [&](int n, int y, int x, int iy, int ix, int, int) {
    for (int c = 0; c < shape.input.channels; ++c) {
      const double value = p.inputs[0][at(shape.input, n, iy, ix, c)];
      double& to = output[at(shape.output, n, y, x, c)];
      to = maximum ? std::max(to, value) : to + value / (shape.window.size * shape.window.size);
    }
  });
  return output;
}

/// Of each output pixel the mean over the rows floor(y h / H) to ceil((y + 1) h / H), columns
/// alike.
Values adaptive(const ActivationShape& in, const ActivationShape& out, const Point& p) {
  Values output(size_of(out));
  const auto first = [](int i, int outputs, int inputs) { return i * inputs / outputs; };
  const auto end = [](int i, int outputs, int inputs) {
    return ((i + 1) * inputs + outputs - 1) / outputs;
  };
  for (int n = 0; n < kBatch; ++n)
    for (int y = 0; y < out.height; ++y)
      for (int x = 0; x < out.width; ++x)
        for (int c = 0; c < out.channels; ++c) {
          double sum = 0;
          int count = 0;
          for (int iy = first(y, out.height, in.height); iy < end(y, out.height, in.height); ++iy)
            for (int ix = first(x, out.width, in.width); ix < end(x, out.width, in.width); ++ix) {
              sum += p.inputs[0][at(in, n, iy, ix, c)];
              ++count;
            }
          output[at(out, n, y, x, c)] = sum / count;
        }
  return output;
}

Values batch_norm(const Point& p, bool relu) {
  const Values& input = p.inputs[0];
  const std::size_t channels = p.parameters[0].size();
  const auto count = static_cast<double>(input.size() / channels);
  Values output(input.size());
  for (std::size_t c = 0; c < channels; ++c) {
    double mean = 0;
    double variance = 0;
    for (std::size_t i = c; i < input.size(); i += channels) mean += input[i] / count;
    for (std::size_t i = c; i < input.size(); i += channels)
      variance += (input[i] - mean) * (input[i] - mean) / count;
    for (std::size_t i = c; i < input.size(); i += channels) {
      output[i] =
          (input[i] - mean) / std::sqrt(variance + 1e-5) * p.parameters[0][c] + p.parameters[1][c];
      if (relu) output[i] = std::max(output[i], 0.0);
    }
  }
  return output;
}

Values upsample(const ActivationShape& in, const Point& p) {
  const ActivationShape out{2 * in.height, 2 * in.width, in.channels};
  Values output(size_of(out));
  // Where an output pixel lies in the input, and the value between four of its pixels.
  const auto clamp = [](double place, int length) {
    return std::clamp(place, 0.0, static_cast<double>(length - 1));
  };
  for (int n = 0; n < kBatch; ++n)
    for (int y = 0; y < out.height; ++y)
      for (int x = 0; x < out.width; ++x)
        for (int c = 0; c < out.channels; ++c) {
          const double py = clamp((y + 0.5) / 2 - 0.5, in.height);
          const double px = clamp((x + 0.5) / 2 - 0.5, in.width);
          const int y0 = static_cast<int>(py);
          const int x0 = static_cast<int>(px);
          const int y1 = std::min(y0 + 1, in.height - 1);
          const int x1 = std::min(x0 + 1, in.width - 1);
          const auto value = [&](int iy, int ix) { return p.inputs[0][at(in, n, iy, ix, c)]; };
          const double fy = py - y0;
          const double fx = px - x0;
          output[at(out, n, y, x, c)] = (1 - fy) * ((1 - fx) * value(y0, x0) + fx * value(y0, x1)) +
                                        fy * ((1 - fx) * value(y1, x0) + fx * value(y1, x1));
        }
  return output;
}

Values dropout(const ActivationShape& shape, const layer::Dropout& kind, const Point& p) {
  const DropoutMask mask(dropout_rate(kind.probability),
                         {.seed = kSeed, .step = 0, .layer = 0, .shard = 0});
  Values output(p.inputs[0].size());
  for (std::size_t i = 0; i < output.size(); ++i) {
    const auto channels = static_cast<std::size_t>(shape.channels);
    const std::size_t element =
        kind.whole_channels ? i / shape.count() * channels + i % channels : i;
    output[i] = p.inputs[0][i] * static_cast<double>(mask.factor(element));
  }
  return output;
}

Values flatten(const ActivationShape& in, const Point& p) {
  Values output(p.inputs[0].size());
  std::size_t to = 0;
  for (int n = 0; n < kBatch; ++n)
    for (int c = 0; c < in.channels; ++c)
      for (int y = 0; y < in.height; ++y)
        for (int x = 0; x < in.width; ++x) output[to++] = p.inputs[0][at(in, n, y, x, c)];
  return output;
}

Values concat(const ActivationShape& a, const ActivationShape& b, const Point& p) {
  Values output;
  for (std::size_t pixel = 0; pixel < p.inputs[0].size() / static_cast<std::size_t>(a.channels);
       ++pixel) {
    for (int c = 0; c < a.channels; ++c)
      output.push_back(
          p.inputs[0][pixel * static_cast<std::size_t>(a.channels) + static_cast<std::size_t>(c)]);
    for (int c = 0; c < b.channels; ++c)
      output.push_back(
          p.inputs[1][pixel * static_cast<std::size_t>(b.channels) + static_cast<std::size_t>(c)]);
  }
  return output;
}

Values each(const Point& p, double (*function)(double)) {
  Values output = p.inputs[0];
  for (double& value : output) value = function(value);
  return output;
}

const std::vector<std::int32_t> kLabels{2, 0};

/// One value: the mean over the samples.
Values cross_entropy(std::size_t classes, const Point& p) {
  double loss = 0;
  for (std::size_t n = 0; n < kBatch; ++n) {
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(p.inputs[0][n * classes + c]);
    loss += std::log(sum) - p.inputs[0][n * classes + static_cast<std::size_t>(kLabels[n])];
  }
  return {loss / kBatch};
}

Values mask_loss(const std::vector<float>& masks, double weight, const Point& p) {
  double loss = 0;
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const double x = p.inputs[0][i];
    const auto target = static_cast<double>(masks[i]);
    loss += weight * target * std::log1p(std::exp(-x)) + (1 - target) * std::log1p(std::exp(x));
  }
  return {loss / static_cast<double>(masks.size())};
}

struct Case {
  std::string name;
  LayerKind kind;
  std::vector<ActivationShape> inputs;
  ActivationShape output;
  std::vector<std::size_t> parameters;
  Formula formula;
};

Values doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// Of sum(slope * formula) by one of the point's values.
Values differences(const Case& one, Point point, bool parameter, std::size_t index,
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
    value = before + kStep;
    const double above = sum();
    value = before - kStep;
    const double below = sum();
    value = before;
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

const std::vector<float> kMasks{1, 0, 0.25F, 1, 0, 0, 1, 0.75F, 1, 0, 0, 1};

std::vector<Case> cases() {
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
       [=](P p) { return convolution(shape(five, slid, strided), p); }},
      {"convolution without bias",
       layer::Convolution{.window = same, .has_bias = false},
       {five},
       {5, 4, 2},
       {2 * 27},
       [=](P p) {
         return convolution(shape(five, {5, 4, 2}, same), p);
       }},
      {"transposed convolution",
       layer::TransposedConvolution{.window = four},
       {five},
       large,
       {3 * 16 * 2, 2},
       [=](P p) { return transposed(shape(five, large, four), p); }},
      {"linear",
       layer::Linear{},
       {{1, 1, 7}},
       {1, 1, 5},
       {35, 5},
       [=](P p) {
         return convolution(shape({1, 1, 7}, {1, 1, 5}, Window{}), p);
       }},
      {"ReLU", layer::Relu{}, {five}, five, {}, [=](P p) { return each(p, relu); }},
      {"max-pooling",
       layer::MaxPool{two},
       {five},
       pooled,
       {},
       [=](P p) { return pool(shape(five, pooled, two), p, true); }},
      {"max-pooling with overlap",
       layer::MaxPool{strided},
       {five},
       {3, 2, 3},
       {},
       [=](P p) {
         return pool(shape(five, {3, 2, 3}, strided), p, true);
       }},
      {"average pooling",
       layer::AveragePool{two},
       {five},
       pooled,
       {},
       [=](P p) { return pool(shape(five, pooled, two), p, false); }},
      {"adaptive average pooling",
       layer::AdaptiveAveragePool{},
       {five},
       {3, 3, 3},
       {},
       [=](P p) {
         return adaptive(five, {3, 3, 3}, p);
       }},
      {"batch norm",
       layer::BatchNorm{false},
       {five},
       five,
       {3, 3, 3, 3},
       [=](P p) { return batch_norm(p, false); }},
      {"batch norm and ReLU",
       layer::BatchNorm{true},
       {five},
       five,
       {3, 3, 3, 3},
       [=](P p) { return batch_norm(p, true); }},
      {"dropout", values, {five}, five, {}, [=](P p) { return dropout(five, values, p); }},
      {"2-D dropout", channels, {five}, five, {}, [=](P p) { return dropout(five, channels, p); }},
      {"flatten", layer::Flatten{}, {five}, {1, 1, 60}, {}, [=](P p) { return flatten(five, p); }},
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
       [=](P p) { return upsample(five, p); }},
      {"concat",
       layer::Concat{},
       {five, {5, 4, 2}},
       {5, 4, 5},
       {},
       [=](P p) {
         return concat(five, {5, 4, 2}, p);
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
  for (const Case& one : cases()) {
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
      point.inputs.push_back(doubles(layer.inputs.back()));
    }
    for (const std::size_t count : one.parameters) {
      layer.parameters.push_back(test::uniform_values(count, seed++));
      point.parameters.push_back(doubles(layer.parameters.back()));
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
    const Values slopes = is_last ? Values{1} : doubles(layer.output_gradient);
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
  }
  seen[LayerKind(layer::Images{}).index()] = true;  // has none
  CHECK(std::all_of(seen.begin(), seen.end(), [](bool one) { return one; }));
}

}  // namespace
}  // namespace ddprun::trainer
