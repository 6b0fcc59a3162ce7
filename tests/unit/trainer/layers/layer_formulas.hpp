// The formulas of layers in double precision, written down as plainly as possible: forward only,
// for finite differences.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/unit/trainer/layers/reference_layers.hpp"
#include "trainer/compute/dropout_ops.hpp"

namespace ddprun::trainer::test {

using Values = std::vector<double>;

/// Inputs and parameters of a layer, moved by the finite differences.
struct Point {
  std::vector<Values> inputs, parameters;
};

inline constexpr int kBatch = 2;
inline constexpr int kSeed = 42;  // of dropout

inline std::size_t size_of(const ActivationShape& shape) { return kBatch * shape.count(); }

inline Values convolution_formula(const LayerShape& shape, const Point& p) {
  Values output(size_of(shape.output));
  const ActivationShape kernel{shape.window.size, shape.window.size, shape.input.channels};
  for_each_place(shape, [&](int n, int y, int x, int iy, int ix, int ky, int kx) {
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
inline Values transposed_formula(const LayerShape& shape, const Point& p) {
  Values output(size_of(shape.output));
  const ActivationShape kernel{shape.window.size, shape.window.size, shape.output.channels};
  const LayerShape mirrored{kBatch, shape.output, shape.input, shape.window};
  for_each_place(mirrored, [&](int n, int iy, int ix, int y, int x, int ky, int kx) {
    for (int i = 0; i < shape.input.channels; ++i)
      for (int o = 0; o < shape.output.channels; ++o)
        output[at(shape.output, n, y, x, o)] +=
            p.inputs[0][at(shape.input, n, iy, ix, i)] * p.parameters[0][at(kernel, i, ky, kx, o)];
  });
  for (std::size_t i = 0; i < output.size(); ++i)
    output[i] += p.parameters[1][i % p.parameters[1].size()];
  return output;
}

inline Values max_pool_formula(const LayerShape& shape, const Point& p) {
  Values output(size_of(shape.output), -1e9);
  for_each_place(shape, [&](int n, int y, int x, int iy, int ix, int, int) {
    for (int c = 0; c < shape.input.channels; ++c) {
      double& to = output[at(shape.output, n, y, x, c)];
      to = std::max(to, p.inputs[0][at(shape.input, n, iy, ix, c)]);
    }
  });
  return output;
}

/// Each output pixel is the mean over the rows floor(y h / H) to ceil((y + 1) h / H), columns
/// alike.
inline Values adaptive_formula(const ActivationShape& in, const ActivationShape& out,
                               const Point& p) {
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

inline Values batch_norm_formula(const Point& p, bool relu) {
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

inline Values upsample_formula(const ActivationShape& in, const Point& p) {
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

inline Values dropout_formula(const ActivationShape& shape, const layer::Dropout& kind,
                              const Point& p) {
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

inline Values flatten_formula(const ActivationShape& in, const Point& p) {
  Values output(p.inputs[0].size());
  std::size_t to = 0;
  for (int n = 0; n < kBatch; ++n)
    for (int c = 0; c < in.channels; ++c)
      for (int y = 0; y < in.height; ++y)
        for (int x = 0; x < in.width; ++x) output[to++] = p.inputs[0][at(in, n, y, x, c)];
  return output;
}

inline Values concat_formula(const ActivationShape& a, const ActivationShape& b, const Point& p) {
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

inline Values each_formula(const Point& p, double (*function)(double)) {
  Values output = p.inputs[0];
  for (double& value : output) value = function(value);
  return output;
}

inline const std::vector<std::int32_t> kLabels{2, 0};

/// One value: the mean over the samples.
inline Values cross_entropy(std::size_t classes, const Point& p) {
  double loss = 0;
  for (std::size_t n = 0; n < kBatch; ++n) {
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(p.inputs[0][n * classes + c]);
    loss += std::log(sum) - p.inputs[0][n * classes + static_cast<std::size_t>(kLabels[n])];
  }
  return {loss / kBatch};
}

inline Values mask_loss(const std::vector<float>& masks, double weight, const Point& p) {
  double loss = 0;
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const double x = p.inputs[0][i];
    const auto target = static_cast<double>(masks[i]);
    loss += weight * target * std::log1p(std::exp(-x)) + (1 - target) * std::log1p(std::exp(x));
  }
  return {loss / static_cast<double>(masks.size())};
}

}  // namespace ddprun::trainer::test
