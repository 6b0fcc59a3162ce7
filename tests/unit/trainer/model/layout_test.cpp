#include "trainer/model/layout.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace ddprun::trainer {
namespace {

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
