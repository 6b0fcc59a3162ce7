#include <catch2/catch.hpp>
#include <vector>

#include "tests/unit/trainer/layers/layer_run.hpp"

namespace ddprun::trainer {
namespace {

/// Two images of 1 x 2 pixels; one channel and two channels.
OperationShape two_inputs(GradientUse first, GradientUse second) {
  return {.batch = 2,
          .inputs = {{{1, 2, 1}, first}, {{1, 2, 2}, second}},
          .output = {1, 2, 3},
          .parameter_counts = {}};
}

test::LayerRun concat_run(GradientUse first, GradientUse second) {
  test::LayerRun layer(layer::Concat{}, two_inputs(first, second));
  layer.inputs = {{1, 2, 3, 4}, {10, 11, 20, 21, 30, 31, 40, 41}};
  layer.output_gradient = {-1, -10, -11, -2, -20, -21, -3, -30, -31, -4, -40, -41};
  return layer;
}

TEST_CASE("concat joins the channels of each pixel, and each input gets its channels' gradients") {
  test::LayerRun layer = concat_run(GradientUse::overwrite, GradientUse::overwrite);
  layer.run();
  CHECK(layer.output == std::vector<float>{1, 10, 11, 2, 20, 21, 3, 30, 31, 4, 40, 41});
  CHECK(layer.input_gradients[0] == std::vector<float>{-1, -2, -3, -4});
  CHECK(layer.input_gradients[1] == std::vector<float>{-10, -11, -20, -21, -30, -31, -40, -41});
}

TEST_CASE("concat leaves the gradient alone of an input that needs none") {
  test::LayerRun layer = concat_run(GradientUse::none, GradientUse::overwrite);
  layer.run();
  CHECK(layer.input_gradients[0] == std::vector<float>(4, 7.0F));
  CHECK(layer.input_gradients[1] == std::vector<float>{-10, -11, -20, -21, -30, -31, -40, -41});
}

TEST_CASE("concat adds to the gradient that an input has from another reader") {
  test::LayerRun layer = concat_run(GradientUse::accumulate, GradientUse::overwrite);
  layer.run();
  CHECK(layer.input_gradients[0] == std::vector<float>{6, 5, 4, 3});
  CHECK(layer.input_gradients[1] == std::vector<float>{-10, -11, -20, -21, -30, -31, -40, -41});
}

}  // namespace
}  // namespace ddprun::trainer
