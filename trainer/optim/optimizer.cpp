#include "trainer/optim/optimizer.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

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
  require(config.clip_norm >= 0, "the norm to clip to must not be negative");
}

}  // namespace

std::vector<std::string> moment_names(const OptimizerConfig& config) {
  if (config.kind == OptimizerKind::adamw) return {"exp_avg", "exp_avg_sq"};
  if (config.momentum != 0) return {"momentum_buffer"};
  return {};
}

Optimizer::Optimizer(const OptimizerConfig& config, std::vector<Parameter> parameters,
                     std::size_t arena_size, Device& device, int shards)
    : config_(config) {
  check(config_);
  if (config_.decays_all) {
    for (Parameter& parameter : parameters)
      parameter.decay = parameter.role == ParameterRole::weight;
  }
  std::sort(parameters.begin(), parameters.end(),
            [](const Parameter& a, const Parameter& b) { return a.offset < b.offset; });
  update_ = device.make_update(config_, parameters, shards);
  for (const std::string& name : moment_names(config_))
    moments_.push_back({name, device.allocate(arena_size * sizeof(float))});
}

void Optimizer::measure_norm(std::span<const float> gradients, StepState& state) {
  if (config_.clip_norm > 0) update_->measure_norm(gradients.data(), state);
}

void Optimizer::update(std::size_t begin, std::size_t end, float* parameters,
                       const float* gradients, const StepState& state) {
  const auto moment = [&](std::size_t index) {
    return index < moments_.size() ? moments_[index].values.as<float>().data() : nullptr;
  };
  update_->run(
      begin, end,
      {.parameters = parameters, .gradients = gradients, .first = moment(0), .second = moment(1)},
      state);
}

}  // namespace ddprun::trainer
