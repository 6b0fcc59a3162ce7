// Against torch.optim.lr_scheduler.ReduceLROnPlateau in tests/pytorch/test_pytorch_schedules.py;
// here the rule as its documentation has it.
#include "trainer/optim/plateau.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

namespace ddprun::trainer {
namespace {

/// The shares after each of these losses.
std::vector<double> shares(const PlateauRule& rule, const std::vector<double>& losses,
                           double base_rate = 1) {
  PlateauState state;
  std::vector<double> all;
  for (const double loss : losses) {
    state = after_epoch(rule, state, loss, base_rate);
    all.push_back(state.share);
  }
  return all;
}

TEST_CASE("the rate falls after one more epoch without a better loss than patience lets pass") {
  const PlateauRule rule{.factor = 0.5, .patience = 2};
  CHECK(shares(rule, {1, 1, 1, 1, 1, 1, 1}) == std::vector<double>{1, 1, 1, 0.5, 0.5, 0.5, 0.25});
}

TEST_CASE("a better loss starts the count anew") {
  const PlateauRule rule{.factor = 0.5, .patience = 1};
  CHECK(shares(rule, {1, 1, 0.9, 0.9, 0.8, 0.8, 0.8}) ==
        std::vector<double>{1, 1, 1, 1, 1, 1, 0.5});
}

TEST_CASE("a loss that is less by a share below the threshold is not better") {
  const PlateauRule rule{.factor = 0.5, .patience = 0, .threshold = 0.1};
  CHECK(shares(rule, {1, 0.95, 0.89}) == std::vector<double>{1, 0.5, 0.5});
}

TEST_CASE("a loss that is no number is not better") {
  const PlateauRule rule{.factor = 0.5, .patience = 0};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(shares(rule, {1, nan, 0.5}) == std::vector<double>{1, 0.5, 0.5});
  CHECK(shares(rule, {nan, 1}) == std::vector<double>{0.5, 0.5});
}

TEST_CASE("a rate that would fall by next to nothing stays") {
  const PlateauRule rule{.factor = 0.1, .patience = 0};
  CHECK(shares(rule, {1, 1, 1}, 1e-8) == std::vector<double>{1, 1, 1});
  CHECK(shares(rule, {1, 1, 1}, 1e-7).back() == Approx(0.1));  // then only by 0.9e-8
}

}  // namespace
}  // namespace ddprun::trainer
