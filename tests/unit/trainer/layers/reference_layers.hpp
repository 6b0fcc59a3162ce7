// Layers written down as plainly as possible, in double precision and channels last: what the fast
// ones are held to.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "trainer/model/layer.hpp"

namespace ddprun::trainer::test {

/// A layer with one input for a fixed number of samples.
struct LayerShape {
  int batch = 0;
  ActivationShape input;
  ActivationShape output;
  Window window;
};

/// What one layer computed, forward and backward; vectors laid out like its tensors.
struct LayerValues {
  std::vector<double> output, input_gradient, weight_gradient, bias_gradient;
};

/// Index into a batch of channels-last activations.
inline std::size_t at(const ActivationShape& shape, int image, int y, int x, int channel) {
  return ((static_cast<std::size_t>(image) * static_cast<std::size_t>(shape.height) +
           static_cast<std::size_t>(y)) *
              static_cast<std::size_t>(shape.width) +
          static_cast<std::size_t>(x)) *
             static_cast<std::size_t>(shape.channels) +
         static_cast<std::size_t>(channel);
}

/// Calls visit(image, y, x, input y, input x, window y, window x) for every output pixel and every
/// window place that lies inside the input.
template <class Visit>
void for_each_place(const LayerShape& shape, Visit visit) {
  for (int n = 0; n < shape.batch; ++n) {
    for (int y = 0; y < shape.output.height; ++y) {
      for (int x = 0; x < shape.output.width; ++x) {
        for (int ky = 0; ky < shape.window.size; ++ky) {
          for (int kx = 0; kx < shape.window.size; ++kx) {
            const int iy = y * shape.window.stride - shape.window.padding + ky;
            const int ix = x * shape.window.stride - shape.window.padding + kx;
            if (iy < 0 || ix < 0 || iy >= shape.input.height || ix >= shape.input.width) continue;
            visit(n, y, x, iy, ix, ky, kx);
          }
        }
      }
    }
  }
}

/// Convolution with weight O,H,W,I; a linear layer is one with a 1 x 1 window on 1 x 1 images.
inline LayerValues convolution(const LayerShape& shape, const std::vector<float>& input,
                               const std::vector<float>& weight, const std::vector<float>& bias,
                               const std::vector<float>& output_gradient) {
  const auto batch = static_cast<std::size_t>(shape.batch);
  LayerValues values;
  values.output.assign(batch * shape.output.count(), 0);
  values.input_gradient.assign(batch * shape.input.count(), 0);
  values.weight_gradient.assign(weight.size(), 0);
  values.bias_gradient.assign(bias.size(), 0);
  const ActivationShape kernel{shape.window.size, shape.window.size, shape.input.channels};
  for_each_place(shape, [&](int n, int y, int x, int iy, int ix, int ky, int kx) {
    for (int o = 0; o < shape.output.channels; ++o) {
      const std::size_t to = at(shape.output, n, y, x, o);
      for (int i = 0; i < shape.input.channels; ++i) {
        const std::size_t from = at(shape.input, n, iy, ix, i);
        const std::size_t w = at(kernel, o, ky, kx, i);
        values.output[to] += static_cast<double>(input[from]) * static_cast<double>(weight[w]);
        values.input_gradient[from] +=
            static_cast<double>(output_gradient[to]) * static_cast<double>(weight[w]);
        values.weight_gradient[w] +=
            static_cast<double>(output_gradient[to]) * static_cast<double>(input[from]);
      }
    }
  });
  for (std::size_t i = 0; i < values.output.size(); ++i) {
    const std::size_t channel = i % bias.size();
    values.output[i] += static_cast<double>(bias[channel]);
    values.bias_gradient[channel] += static_cast<double>(output_gradient[i]);
  }
  return values;
}

/// Transposed convolution with weight I,H,W,O. Its geometry is that of the convolution from its
/// output to its input.
inline LayerValues transposed_convolution(const LayerShape& shape, const std::vector<float>& input,
                                          const std::vector<float>& weight,
                                          const std::vector<float>& bias,
                                          const std::vector<float>& output_gradient) {
  const LayerShape mirrored{shape.batch, shape.output, shape.input, shape.window};
  const auto batch = static_cast<std::size_t>(shape.batch);
  LayerValues values;
  values.output.resize(batch * shape.output.count());
  values.input_gradient.resize(batch * shape.input.count());
  values.weight_gradient.resize(weight.size());
  values.bias_gradient.resize(bias.size());
  const ActivationShape kernel{shape.window.size, shape.window.size, shape.output.channels};
  for_each_place(mirrored, [&](int n, int iy, int ix, int y, int x, int ky, int kx) {
    for (int i = 0; i < shape.input.channels; ++i) {
      const std::size_t from = at(shape.input, n, iy, ix, i);
      for (int o = 0; o < shape.output.channels; ++o) {
        const std::size_t to = at(shape.output, n, y, x, o);
        const std::size_t w = at(kernel, i, ky, kx, o);
        values.output[to] += static_cast<double>(input[from]) * static_cast<double>(weight[w]);
        values.input_gradient[from] +=
            static_cast<double>(output_gradient[to]) * static_cast<double>(weight[w]);
        values.weight_gradient[w] +=
            static_cast<double>(output_gradient[to]) * static_cast<double>(input[from]);
      }
    }
  });
  for (std::size_t i = 0; i < values.output.size(); ++i) {
    values.output[i] += static_cast<double>(bias[i % bias.size()]);
    values.bias_gradient[i % bias.size()] += static_cast<double>(output_gradient[i]);
  }
  return values;
}

/// Maximum over the window: padding never wins; the first of equals gets the gradient.
inline LayerValues max_pool(const LayerShape& shape, const std::vector<float>& input,
                            const std::vector<float>& output_gradient) {
  const auto batch = static_cast<std::size_t>(shape.batch);
  LayerValues values;
  values.output.assign(batch * shape.output.count(), -std::numeric_limits<double>::infinity());
  values.input_gradient.assign(batch * shape.input.count(), 0);
  std::vector<std::size_t> winner(values.output.size(), 0);
  for_each_place(shape, [&](int n, int y, int x, int iy, int ix, int, int) {
    for (int c = 0; c < shape.input.channels; ++c) {
      const std::size_t to = at(shape.output, n, y, x, c);
      const std::size_t from = at(shape.input, n, iy, ix, c);
      if (const auto value = static_cast<double>(input[from]); value > values.output[to]) {
        values.output[to] = value;
        winner[to] = from;
      }
    }
  });
  for (std::size_t to = 0; to < winner.size(); ++to)
    values.input_gradient[winner[to]] += static_cast<double>(output_gradient[to]);
  return values;
}

}  // namespace ddprun::trainer::test
