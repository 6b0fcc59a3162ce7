#include "trainer/optim/optimizer.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "trainer/host/host_loops.hpp"

namespace ddprun::trainer {
namespace {

void check(const OptimizerConfig& config) {
  const auto require = [](bool good, const char* what) {
    if (!good) throw std::invalid_argument(std::string("optimizer: ") + what);
  };
  require(config.weight_decay >= 0, "the weight decay must not be negative");
  require(config.momentum >= 0, "the momentum must not be negative");
  require(!config.nesterov || config.momentum > 0, "Nesterov needs a momentum above 0");
  require(config.beta1 >= 0 && config.beta1 < 1, "beta1 must be in [0, 1)");
  require(config.beta2 >= 0 && config.beta2 < 1, "beta2 must be in [0, 1)");
  require(config.epsilon >= 0, "epsilon must not be negative");
}

}  // namespace

Optimizer::Optimizer(const OptimizerConfig& config, std::vector<Parameter> parameters,
                     std::size_t arena_size)
    : config_(config), parameters_(std::move(parameters)) {
  check(config_);
  std::sort(parameters_.begin(), parameters_.end(),
            [](const Parameter& a, const Parameter& b) { return a.offset < b.offset; });
  if (config_.kind == OptimizerKind::adamw) {
    moments_.push_back({"exp_avg", FloatBuffer(arena_size)});
    moments_.push_back({"exp_avg_sq", FloatBuffer(arena_size)});
  } else if (config_.momentum != 0) {
    moments_.push_back({"momentum_buffer", FloatBuffer(arena_size)});
  }
}

void Optimizer::update(std::size_t begin, std::size_t end, std::span<float> parameters,
                       std::span<const float> gradients, const StepState& state) {
  if (state.found_inf != 0) return;
  const UpdateScalars scalars = update_scalars(config_, state);
  for (const Parameter& parameter : parameters_) {
    // Padding between parameters is not touched: it stays 0.
    const std::size_t from = std::max(begin, parameter.offset);
    const std::size_t to = std::min(end, parameter.offset + parameter.count);
    if (from >= to) continue;
    const double decay = parameter.decay ? config_.weight_decay : 0.0;
    const auto values = parameters.subspan(from, to - from);
    const auto slopes = gradients.subspan(from, to - from);
    if (config_.kind == OptimizerKind::adamw) {
      adamw_range(scalars, keep_factor(scalars.learning_rate, decay), values, slopes,
                  moments_[0].values.data() + from, moments_[1].values.data() + from);
    } else {
      sgd_range(config_, scalars, static_cast<float>(decay), values, slopes,
                moments_.empty() ? nullptr : moments_[0].values.data() + from);
    }
  }
}

bool has_non_finite(std::span<const float> values) { return any_non_finite(values); }

}  // namespace ddprun::trainer
