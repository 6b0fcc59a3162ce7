#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/unit/trainer/layers/layer_run.hpp"
#include "tests/unit/trainer/layers/reference_layers.hpp"

namespace ddprun::trainer {
namespace {

struct Upsampled {
  std::vector<double> output, input_gradient;
};

/// PyTorch's rule in double precision: the four pixels around (o + 1/2) / 2 - 1/2, those beyond an
/// edge being the one at the edge.
Upsampled reference(int batch, const ActivationShape& in, const std::vector<float>& input,
                    const std::vector<float>& slope) {
  const ActivationShape out{2 * in.height, 2 * in.width, in.channels};
  const auto images = static_cast<std::size_t>(batch);
  Upsampled values{std::vector<double>(images * out.count()),
                   std::vector<double>(images * in.count())};
  for (int n = 0; n < batch; ++n) {
    for (int y = 0; y < out.height; ++y) {
      for (int x = 0; x < out.width; ++x) {
        const double row = (y + 0.5) / 2 - 0.5;
        const double column = (x + 0.5) / 2 - 0.5;
        for (int k = 0; k < 4; ++k) {
          const int from_row = static_cast<int>(std::floor(row)) + k / 2;
          const int from_column = static_cast<int>(std::floor(column)) + k % 2;
          const double weight =
              (1 - std::abs(row - from_row)) * (1 - std::abs(column - from_column));
          const int inside_row = std::clamp(from_row, 0, in.height - 1);
          const int inside_column = std::clamp(from_column, 0, in.width - 1);
          for (int c = 0; c < in.channels; ++c) {
            const std::size_t to = test::at(out, n, y, x, c);
            const std::size_t from = test::at(in, n, inside_row, inside_column, c);
            values.output[to] += weight * static_cast<double>(input[from]);
            values.input_gradient[from] += weight * static_cast<double>(slope[to]);
          }
        }
      }
    }
  }
  return values;
}

TEST_CASE("bilinear enlarging agrees with PyTorch's rule, forward and backward") {
  constexpr int kBatch = 3;
  for (const ActivationShape& in :
       {ActivationShape{1, 1, 4}, {2, 3, 1}, {5, 4, 7}, {7, 7, 16}, {1, 6, 3}}) {
    INFO(in.height << " x " << in.width << " pixels, " << in.channels << " channels");
    const ActivationShape out{2 * in.height, 2 * in.width, in.channels};
    test::LayerRun layer(layer::Upsample{}, {.batch = kBatch,
                                             .inputs = {{in, GradientUse::overwrite}},
                                             .output = out,
                                             .parameter_counts = {}});
    layer.inputs = {test::uniform_values(kBatch * in.count(), 1)};
    layer.output_gradient = test::uniform_values(kBatch * out.count(), 2);
    layer.run();
    const Upsampled want = reference(kBatch, in, layer.inputs[0], layer.output_gradient);
    CHECK(test::distance(layer.output, want.output) < 1e-6);
    CHECK(test::distance(layer.input_gradients[0], want.input_gradient) < 1e-6);
  }
}

TEST_CASE("bilinear enlarging has the same bits on one thread and on several") {
  const ActivationShape in{6, 5, 16};
  test::LayerRun layer(layer::Upsample{}, {.batch = 4,
                                           .inputs = {{in, GradientUse::overwrite}},
                                           .output = {12, 10, 16},
                                           .parameter_counts = {}});
  layer.inputs = {test::uniform_values(4 * in.count(), 1)};
  layer.output_gradient = test::uniform_values(16 * in.count(), 2);
  layer.run();
  const std::vector<float> output = layer.output;
  const std::vector<float> gradient = layer.input_gradients[0];
  test::device().use_threads(3);
  layer.run();
  test::device().use_threads(1);
  CHECK(layer.output == output);
  CHECK(layer.input_gradients[0] == gradient);
}

}  // namespace
}  // namespace ddprun::trainer
