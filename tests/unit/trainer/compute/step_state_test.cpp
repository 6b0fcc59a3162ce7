#include "trainer/compute/step_state.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace ddprun::trainer {
namespace {

TEST_CASE("without loss scaling the scale stays 1, and an overflow seen elsewhere is counted") {
  const ScalerConfig config{};
  StepState state;
  state.scaler = initial_scaler(config);
  for (int i = 0; i < 5000; ++i) finish_step(config, state);
  REQUIRE(state.scaler == ScalerState{1.0F, 0});
  REQUIRE(state.updates == 5000);
  REQUIRE(state.skipped == 0);
}

TEST_CASE("the loss scale follows the recorded trajectory of torch.amp.GradScaler") {
  // growth_interval 3; recorded from torch.amp.GradScaler 2.15 on the CPU, overflows at steps 4, 5
  // and 12.
  ScalerConfig config{.enabled = true};
  config.growth_interval = 3;
  StepState state;
  state.scaler = initial_scaler(config);
  const std::vector<float> want{65536, 65536, 131072, 131072, 65536, 32768, 32768, 32768,
                                65536, 65536, 65536,  131072, 65536, 65536, 65536, 131072};
  for (std::size_t step = 0; step < want.size(); ++step) {
    state.found_inf = step == 4 || step == 5 || step == 12 ? 1 : 0;
    finish_step(config, state);
    INFO("step " << step);
    REQUIRE(state.scaler.scale == want[step]);
    REQUIRE(state.found_inf == 0);
  }
  REQUIRE(state.skipped == 3);
  REQUIRE(state.updates == want.size() - 3);
}

TEST_CASE("the default scale doubles after exactly 2000 good steps in a row") {
  const ScalerConfig config{.enabled = true};
  ScalerState state = initial_scaler(config);
  REQUIRE(state.scale == 65536.0F);
  for (int i = 0; i < 1999; ++i) state = next_scaler(config, state, false);
  REQUIRE(state.scale == 65536.0F);
  REQUIRE(next_scaler(config, state, false) == ScalerState{131072.0F, 0});
  // An overflow just before starts the count again.
  REQUIRE(next_scaler(config, state, true) == ScalerState{32768.0F, 0});
}

TEST_CASE("skipped steps in a row are counted once the scale is at its floor") {
  const ScalerConfig config{.enabled = true, .initial = 4.0F};
  StepState state;
  state.scaler = initial_scaler(config);
  const auto step = [&](bool overflows) {
    state.found_inf = overflows ? 1 : 0;
    finish_step(config, state);
    return state.stuck;
  };
  REQUIRE(step(true) == 0);  // 4 -> 2
  REQUIRE(step(true) == 0);  // 2 -> 1
  REQUIRE(step(true) == 1);
  REQUIRE(step(true) == 2);
  REQUIRE(step(false) == 0);
  REQUIRE(step(true) == 1);
  REQUIRE(steps_done(state) == 6);
}

TEST_CASE("the scale stops at its ceiling and at its floor") {
  ScalerConfig config{.enabled = true};
  config.growth_interval = 1;
  ScalerState state = initial_scaler(config);
  for (int i = 0; i < 20; ++i) state = next_scaler(config, state, false);
  REQUIRE(state.scale == 16777216.0F);
  for (int i = 0; i < 40; ++i) state = next_scaler(config, state, true);
  REQUIRE(state.scale == 1.0F);
}

}  // namespace
}  // namespace ddprun::trainer
