// A layer against its formula in double precision, and against that formula's finite differences.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "tests/unit/trainer/layers/layer_run.hpp"

namespace ddprun::trainer::test {

using Doubles = std::vector<double>;
/// The output of inputs and parameters, in that order.
using Formula = std::function<Doubles(const std::vector<Doubles>&)>;

/// Runs the layer twice. Every `every`-th gradient of each input and parameter is compared.
inline void check_against(LayerRun& layer, const Formula& formula, double tolerance = 2e-6,
                          std::size_t every = 1) {
  std::vector<Doubles> values;
  for (const auto* list : {&layer.inputs, &layer.parameters})
    for (const auto& one : *list) values.emplace_back(one.begin(), one.end());
  const Doubles want = formula(values);
  const auto sum = [&] {
    const Doubles output = formula(values);
    double total = 0;
    for (std::size_t i = 0; i < output.size(); ++i)
      total += output[i] * static_cast<double>(layer.output_gradient[i]);
    return total;
  };
  constexpr double kStep = 1e-5;
  for (int repeat = 0; repeat < 2; ++repeat) {
    layer.run();
    REQUIRE(distance(layer.output, want) < tolerance);
  }
  for (std::size_t k = 0; k < values.size(); ++k) {
    const bool is_input = k < layer.inputs.size();
    const auto& got =
        is_input ? layer.input_gradients[k] : layer.parameter_gradients[k - layer.inputs.size()];
    std::vector<float> some;
    Doubles slopes;
    for (std::size_t i = 0; i < values[k].size(); i += every) {
      const double before = values[k][i];
      values[k][i] = before + kStep;
      const double above = sum();
      values[k][i] = before - kStep;
      const double below = sum();
      values[k][i] = before;
      some.push_back(got[i]);
      slopes.push_back((above - below) / (2 * kStep));
    }
    INFO((is_input ? "input " : "parameter ") << (is_input ? k : k - layer.inputs.size()));
    REQUIRE(distance(some, slopes) < tolerance);
  }
}

}  // namespace ddprun::trainer::test
