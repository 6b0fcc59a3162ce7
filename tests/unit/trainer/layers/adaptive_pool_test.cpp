#include <catch2/catch.hpp>
#include <vector>

#include "tests/unit/trainer/layers/layer_run.hpp"

namespace ddprun::trainer {
namespace {

TEST_CASE("adaptive pooling takes means over PyTorch's windows, from larger and smaller images") {
  struct Case {
    ActivationShape in, out;
  };
  const std::vector<Case> cases{{{7, 7, 16}, {1, 1, 16}},
                                {{13, 10, 3}, {6, 6, 3}},  // windows overlap
                                {{6, 6, 4}, {6, 6, 4}},
                                {{1, 1, 8}, {6, 6, 8}},  // one pixel for many
                                {{4, 3, 5}, {6, 2, 5}}};
  constexpr int kBatch = 2;
  for (const Case& c : cases) {
    INFO(c.in.height << " x " << c.in.width << " to " << c.out.height << " x " << c.out.width);
    test::LayerRun layer(layer::AdaptiveAveragePool{}, {.batch = kBatch,
                                                        .inputs = {{c.in, GradientUse::overwrite}},
                                                        .output = c.out,
                                                        .parameter_counts = {}});
    layer.inputs = {test::uniform_values(kBatch * c.in.count(), 1)};
    layer.output_gradient = test::uniform_values(kBatch * c.out.count(), 2);
    layer.run();
    std::vector<double> output(kBatch * c.out.count());
    std::vector<double> gradient(kBatch * c.in.count());
    const auto element = [](const ActivationShape& shape, int n, int y, int x, int channel) {
      return static_cast<std::size_t>(((n * shape.height + y) * shape.width + x) * shape.channels +
                                      channel);
    };
    for (int n = 0; n < kBatch; ++n) {
      for (int y = 0; y < c.out.height; ++y) {
        for (int x = 0; x < c.out.width; ++x) {
          // PyTorch: from floor(i in / out) to ceil((i + 1) in / out).
          const int top = y * c.in.height / c.out.height;
          const int bottom = ((y + 1) * c.in.height + c.out.height - 1) / c.out.height;
          const int left = x * c.in.width / c.out.width;
          const int right = ((x + 1) * c.in.width + c.out.width - 1) / c.out.width;
          const double share = 1.0 / ((bottom - top) * (right - left));
          for (int row = top; row < bottom; ++row) {
            for (int column = left; column < right; ++column) {
              for (int channel = 0; channel < c.in.channels; ++channel) {
                const std::size_t to = element(c.out, n, y, x, channel);
                const std::size_t from = element(c.in, n, row, column, channel);
                output[to] += static_cast<double>(layer.inputs[0][from]) * share;
                gradient[from] += static_cast<double>(layer.output_gradient[to]) * share;
              }
            }
          }
        }
      }
    }
    CHECK(test::distance(layer.output, output) < 1e-6);
    CHECK(test::distance(layer.input_gradients[0], gradient) < 1e-6);
  }
}

}  // namespace
}  // namespace ddprun::trainer
