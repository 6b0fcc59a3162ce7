#include "trainer/optim/optimizer.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/unit/trainer/host/host_executor.hpp"
#include "trainer/compute/philox.hpp"
#include "trainer/host/host_loops.hpp"

namespace ddprun::trainer {
namespace {

// Two parameters with padding between: four elements with decay at 0, two without at 16; the arena
// has 32.
std::vector<Parameter> table() {
  return {{"p.weight", {4}, ParameterLayout::as_pytorch, 0, 4, true},
          {"p.bias", {2}, ParameterLayout::as_pytorch, 16, 2, false}};
}
constexpr std::size_t kArena = 32;

std::vector<float> start() {
  std::vector<float> arena(kArena, 0.0F);
  const float weight[] = {1.0F, -0.5F, 0.25F, 2.0F};
  std::copy(std::begin(weight), std::end(weight), arena.begin());
  arena[16] = 0.5F;
  arena[17] = -1.0F;
  return arena;
}

std::vector<float> gradients(int step, float scale) {
  std::vector<float> arena(kArena, 0.0F);
  for (int i = 0; i < 4; ++i) {
    arena[static_cast<std::size_t>(i)] =
        scale * static_cast<float>((step * 7 + i * 3) % 11 - 5) / 8;
  }
  for (int i = 0; i < 2; ++i) {
    arena[static_cast<std::size_t>(16 + i)] =
        scale * static_cast<float>((step * 5 + i * 2) % 7 - 3) / 4;
  }
  return arena;
}

std::vector<float> ten_steps(const OptimizerConfig& config, float rate, float scale) {
  Optimizer optimizer(config, table(), kArena, test::host());
  std::vector<float> arena = start();
  StepState state;
  state.learning_rate = rate;
  state.scaler.scale = scale;
  for (int step = 1; step <= 10; ++step) {
    optimizer.update(0, kArena, arena.data(), gradients(step, scale).data(), state);
    finish_step({}, state);
  }
  return arena;
}

struct RecordedStep {
  std::string name;
  OptimizerConfig config;
  float rate;
  std::vector<double> values;  // four weights, two biases
};

TEST_CASE("ten steps end where torch.optim 2.15 ends, with and without a loss scale") {
  // RecordedStep from torch.optim with two parameter groups, the second with weight_decay=0.
  const std::vector<RecordedStep> runs{
      {"SGD",
       {.weight_decay = 0.01, .momentum = 0},
       0.1F,
       {0.928030789, -0.519499779, 0.259749293, 2.02972841, 0.5, -0.975000024}},
      {"SGD with momentum",
       {.weight_decay = 0.01, .momentum = 0.9},
       0.1F,
       {0.58053875, -0.799812019, 0.444481522, 2.19293857, 0.225491032, -0.816518843}},
      {"SGD with Nesterov momentum",
       {.weight_decay = 0.01, .momentum = 0.9, .nesterov = true},
       0.1F,
       {0.553275108, -0.786131859, 0.433769435, 2.20175004, 0.252941996, -0.809866965}},
      {"AdamW",
       {.kind = OptimizerKind::adamw, .weight_decay = 0.1},
       0.01F,
       {0.958085835, -0.525590122, 0.264062285, 2.00128984, 0.474078119, -0.98403722}},
      {"AdamW with other constants",
       {.kind = OptimizerKind::adamw,
        .weight_decay = 0.1,
        .beta1 = 0.8,
        .beta2 = 0.95,
        .epsilon = 1e-3},
       0.01F,
       {0.960836589, -0.519607127, 0.263600558, 1.998927, 0.478301942, -0.98662591}}};
  for (const RecordedStep& run : runs) {
    for (const float scale : {1.0F, 65536.0F}) {
      INFO(run.name << ", loss scale " << scale);
      const std::vector<float> arena = ten_steps(run.config, run.rate, scale);
      for (std::size_t i = 0; i < run.values.size(); ++i) {
        const std::size_t at = i < 4 ? i : 12 + i;
        REQUIRE(arena[at] == Approx(run.values[i]).epsilon(1e-6));
      }
      for (const std::size_t padding : {4, 15, 18, 31}) REQUIRE(arena[padding] == 0.0F);
    }
  }
}

TEST_CASE("decay may apply to biases too, but never to statistics") {
  std::vector<Parameter> parameters = table();
  parameters.push_back({"p.running_mean", {2}, ParameterLayout::as_pytorch, 24, 2, false});
  parameters.back().role = ParameterRole::statistic;
  const auto after = [&](bool all) {
    Optimizer optimizer({.weight_decay = 0.5, .decays_all = all, .momentum = 0}, parameters, kArena,
                        test::host());
    std::vector<float> arena(kArena, 1.0F);
    StepState state;
    state.learning_rate = 1;
    optimizer.update(0, kArena, arena.data(), std::vector<float>(kArena, 0.0F).data(), state);
    return std::array{arena[0], arena[16], arena[24]};
  };
  // Weight, bias, statistic: the last one is mixed, 0.9 of what it was.
  CHECK(after(false) == std::array{0.5F, 1.0F, 0.9F});
  CHECK(after(true) == std::array{0.5F, 0.5F, 0.9F});
}

TEST_CASE("a thousand AdamW steps stay within 1e-5 of the formulas in double precision") {
  const OptimizerConfig config{.kind = OptimizerKind::adamw, .weight_decay = 0.05};
  Optimizer optimizer(config, table(), kArena, test::host());
  std::vector<float> arena = start();
  StepState state;
  double w = 1.0;
  double m = 0;
  double v = 0;
  for (int step = 1; step <= 1000; ++step) {
    const double rate = 0.003 / (1 + 0.01 * step);
    state.learning_rate = static_cast<float>(rate);
    const std::vector<float> gradient = gradients(step, 1.0F);
    optimizer.update(0, kArena, arena.data(), gradient.data(), state);
    finish_step({}, state);
    const auto g = static_cast<double>(gradient[0]);
    w *= 1 - rate * 0.05;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double corrected = std::sqrt(v / (1 - std::pow(0.999, step)));
    w -= rate * m / (1 - std::pow(0.9, step)) / (corrected + 1e-8);
  }
  REQUIRE(static_cast<double>(arena[0]) == Approx(w).epsilon(1e-5));
}

TEST_CASE("the bits of an update do not depend on how the arena is cut into ranges") {
  const std::size_t size = 4096;
  const std::vector<Parameter> one{{"w", {4000}, ParameterLayout::as_pytorch, 0, 4000, true}};
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adamw}) {
    const OptimizerConfig config{.kind = kind, .weight_decay = 0.01};
    std::vector<std::vector<float>> results;
    for (const std::size_t piece : {std::size_t{4096}, std::size_t{1}, std::size_t{37}}) {
      Optimizer optimizer(config, one, size, test::host());
      std::vector<float> arena(size, 0.0F);
      std::vector<float> gradient(size, 0.0F);
      StepState state;
      state.learning_rate = 0.01F;
      for (std::uint32_t step = 0; step < 3; ++step) {
        for (std::uint32_t i = 0; i < 4000; ++i) {
          const PhiloxBlock words = philox({{i, step, 0, 0}}, 7, 0);
          gradient[i] = unit_uniform(words.word[0]) - 0.5F;
          if (step == 0) arena[i] = unit_uniform(words.word[1]);
        }
        for (std::size_t at = 0; at < size; at += piece) {
          optimizer.update(at, std::min(size, at + piece), arena.data(), gradient.data(), state);
        }
        finish_step({}, state);
      }
      results.push_back(arena);
    }
    REQUIRE(results[0] == results[1]);
    REQUIRE(results[0] == results[2]);
  }
}

TEST_CASE("gradients are clipped to a norm as torch.nn.utils.clip_grad_norm_ clips them") {
  const std::vector<float> gradient = gradients(1, 1.0F);
  double squares = 0;
  for (const float value : gradient) squares += std::pow(static_cast<double>(value), 2);
  const double norm = std::sqrt(squares);
  const auto after = [&](double clip, std::vector<float> of, float scale) {
    Optimizer optimizer({.weight_decay = 0.01, .clip_norm = clip}, table(), kArena, test::host());
    std::vector<float> arena = start();
    StepState state;
    state.learning_rate = 0.5F;
    state.scaler.scale = scale;
    optimizer.measure_norm(of, state);
    optimizer.update(0, kArena, arena.data(), of.data(), state);
    if (clip > 0) CHECK(state.gradient_norm == Approx(norm));
    return arena;
  };
  const std::vector<float> plain = after(0, gradient, 1);
  CHECK(after(norm * 1.01, gradient, 1) == plain);
  std::vector<float> shorter = gradient;
  for (float& value : shorter) value = static_cast<float>(value * (0.25 / (norm + 1e-6)));
  const std::vector<float> clipped = after(0.25, gradient, 1);
  const std::vector<float> wanted = after(0, shorter, 1);
  CHECK(clipped != plain);
  for (std::size_t i = 0; i < kArena; ++i)
    CHECK(static_cast<double>(clipped[i]) == Approx(static_cast<double>(wanted[i])).epsilon(1e-6));
  // A loss scale that is a power of 2 changes no bit.
  std::vector<float> scaled = gradient;
  for (float& value : scaled) value *= 1024;
  CHECK(after(0.25, scaled, 1024) == clipped);
}

TEST_CASE("a norm that is no number stays seen: weights become nan, as in PyTorch") {
  Optimizer optimizer({.clip_norm = 1}, table(), kArena, test::host());
  std::vector<float> arena = start();
  std::vector<float> gradient = gradients(1, 1.0F);
  gradient[1] = std::numeric_limits<float>::quiet_NaN();
  StepState state;
  state.learning_rate = 0.1F;
  optimizer.measure_norm(gradient, state);
  optimizer.update(0, kArena, arena.data(), gradient.data(), state);
  CHECK(std::isnan(arena[0]));
}

TEST_CASE("a step with an overflow changes neither parameters nor moments nor the step count") {
  const ScalerConfig scaler{.enabled = true};
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adamw}) {
    Optimizer optimizer({.kind = kind, .weight_decay = 0.1}, table(), kArena, test::host());
    std::vector<float> arena = start();
    StepState state;
    state.learning_rate = 0.1F;
    state.scaler = initial_scaler(scaler);
    optimizer.update(0, kArena, arena.data(), gradients(1, 65536.0F).data(), state);
    finish_step(scaler, state);
    const std::vector<float> before = arena;
    const std::vector<float> moment(optimizer.moments()[0].values.as<float>().begin(),
                                    optimizer.moments()[0].values.as<float>().end());
    std::vector<float> overflow = gradients(2, 65536.0F);
    overflow[17] = std::numeric_limits<float>::infinity();
    state.found_inf |= any_non_finite(overflow) ? 1 : 0;
    optimizer.update(0, kArena, arena.data(), overflow.data(), state);
    finish_step(scaler, state);
    REQUIRE(arena == before);
    REQUIRE(
        std::equal(moment.begin(), moment.end(), optimizer.moments()[0].values.as<float>().data()));
    REQUIRE(state.updates == 1);
    REQUIRE(state.skipped == 1);
    REQUIRE(state.scaler.scale == 32768.0F);
  }
}

TEST_CASE("an inf or nan is found wherever it stands, and only then") {
  std::vector<float> values(1000, std::numeric_limits<float>::max());
  REQUIRE_FALSE(any_non_finite(values));
  REQUIRE_FALSE(any_non_finite({}));
  for (const std::size_t at : {0, 1, 15, 16, 500, 998, 999}) {
    for (const float bad :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> other = values;
      other[at] = bad;
      REQUIRE(any_non_finite(other));
    }
  }
}

TEST_CASE("the moments that a checkpoint keeps have PyTorch's names") {
  const Optimizer plain({.momentum = 0}, table(), kArena, test::host());
  REQUIRE(plain.moments().empty());
  const Optimizer momentum({.momentum = 0.9}, table(), kArena, test::host());
  REQUIRE(momentum.moments().size() == 1);
  REQUIRE(momentum.moments()[0].name == "momentum_buffer");
  const Optimizer adamw({.kind = OptimizerKind::adamw}, table(), kArena, test::host());
  REQUIRE(adamw.moments().size() == 2);
  REQUIRE(adamw.moments()[0].name == "exp_avg");
  REQUIRE(adamw.moments()[1].name == "exp_avg_sq");
  REQUIRE(adamw.moments()[1].values.as<float>().size() == kArena);
}

TEST_CASE("settings that PyTorch refuses are refused") {
  const auto make = [](const OptimizerConfig& config) {
    Optimizer(config, table(), kArena, test::host());
  };
  REQUIRE_THROWS_AS(make({.weight_decay = -0.1}), std::invalid_argument);
  REQUIRE_THROWS_AS(make({.momentum = -0.1}), std::invalid_argument);
  REQUIRE_THROWS_AS(make({.momentum = 0, .nesterov = true}), std::invalid_argument);
  REQUIRE_THROWS_AS(make({.clip_norm = -1}), std::invalid_argument);
  REQUIRE_THROWS_AS(make({.kind = OptimizerKind::adamw, .beta1 = 1.0}), std::invalid_argument);
  REQUIRE_THROWS_AS(make({.kind = OptimizerKind::adamw, .beta2 = -0.5}), std::invalid_argument);
  REQUIRE_THROWS_AS(make({.kind = OptimizerKind::adamw, .epsilon = -1}), std::invalid_argument);
}

}  // namespace
}  // namespace ddprun::trainer
