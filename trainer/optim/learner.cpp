#include "trainer/optim/learner.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/hash_bytes.hpp"

namespace ddprun::trainer {

Learner::Learner(const Graph& graph, Device& device, const Settings& settings)
    : graph_(graph),
      device_(device),
      scaler_(settings.scaler),
      storage_(device.storage(settings.precision)),
      optimizer_(settings.optimizer, graph.parameters(), graph.arena_size(), device,
                 settings.shards),
      parameters_(device.allocate(graph.arena_size() * sizeof(float))),
      state_(device.allocate(sizeof(StepState))),
      looked_(device.allocate(sizeof(StepState))) {
  if (storage_ != Storage::fp32) stored_ = device.allocate(graph.arena_size() * bytes_of(storage_));
  StepState first;
  first.scaler = initial_scaler(scaler_);
  set_step_state(first);
}

std::span<float> Learner::arena(std::size_t index) const {
  return index == 0 ? parameters_.as<float>() : optimizer_.moments()[index - 1].values.as<float>();
}

void Learner::copy_out(std::size_t index, std::span<float> host) const {
  device_.copy_out(arena(index).data(), std::as_writable_bytes(host));
}

void Learner::copy_in(std::size_t index, std::span<const float> host) {
  device_.copy_in(std::as_bytes(host), arena(index).data());
  if (index == 0) store_weights();
}

StepState Learner::step_state() const {
  StepState state;
  device_.copy_out(&state_there(), std::as_writable_bytes(std::span(&state, 1)));
  return state;
}

std::uint64_t Learner::hash_of_all() const {
  const StepState state = step_state();
  std::vector<std::uint64_t> parts = {std::bit_cast<std::uint32_t>(state.scaler.scale),
                                      state.scaler.good_steps, state.updates, state.skipped,
                                      state.stuck};
  for (std::size_t i = 0; i < arenas(); ++i) parts.push_back(device_.hash(arena(i)));
  return hash_bytes(std::as_bytes(std::span(parts)), parts.size());
}

void Learner::make_room_to_keep() {
  std::vector<DeviceMemory> room;
  for (std::size_t i = 0; i < arenas(); ++i)
    room.push_back(device_.allocate(arena_size() * sizeof(float)));
  room.push_back(device_.allocate(sizeof(StepState)));
  kept_ = std::move(room);
}

void Learner::keep() {
  for (std::size_t i = 0; i < arenas(); ++i)
    device_.copy(std::as_bytes(arena(i)), kept_.at(i).data());
  device_.copy(state_.as<const std::byte>(), kept_.at(arenas()).data());
}

void Learner::go_back() {
  for (std::size_t i = 0; i < arenas(); ++i)
    device_.copy(kept_.at(i).as<const std::byte>(), std::as_writable_bytes(arena(i)).data());
  device_.copy(kept_.at(arenas()).as<const std::byte>(), state_.data());
  store_weights();
}

std::string Learner::non_finite() const {
  for (std::size_t i = 0; i < arenas(); ++i) {
    if (is_finite(arena(i))) continue;
    std::vector<float> values(arena_size());
    copy_out(i, values);
    const std::string name = non_finite_in(values, graph_.parameters());
    return i == 0 ? name : optimizer_.moments()[i - 1].name + " of " + name;
  }
  return "";
}

bool Learner::is_finite(std::span<const float> arena) const {
  StepState looked;
  const auto bytes = std::as_writable_bytes(std::span(&looked, 1));
  device_.copy_in(bytes, looked_.data());
  device_.find_non_finite(arena, looked_.as<StepState>().front());
  device_.copy_out(looked_.data(), bytes);
  return looked.found_inf == 0;
}

void Learner::set_step_state(const StepState& state) {
  device_.copy_in(std::as_bytes(std::span(&state, 1)), &state_there());
}

Weights Learner::weights() const {
  const float* const master = parameters_.as<float>().data();
  return {master, storage_ == Storage::fp32 ? static_cast<const void*>(master) : stored_.data()};
}

void Learner::set_learning_rate(float rate) {
  device_.copy_in(std::as_bytes(std::span(&rate, 1)),
                  state_.data() + offsetof(StepState, learning_rate));
}

void Learner::begin_update(std::span<const float> gradients) {
  if (scaler_.enabled) device_.find_non_finite(gradients, state_there());
  optimizer_.measure_norm(gradients, state_there());
}

void Learner::update(std::size_t begin, std::size_t end, std::span<const float> gradients) {
  optimizer_.update(begin, end, parameters_.as<float>().data(), gradients.data(), state_there());
}

void Learner::finish_update() {
  device_.finish_step(scaler_, state_there());
  store_weights();
}

void Learner::store_weights() {
  if (storage_ != Storage::fp32) device_.store(storage_, parameters_.as<float>(), stored_.data());
}

std::string non_finite_in(std::span<const float> arena, std::span<const Parameter> parameters) {
  for (const Parameter& parameter : parameters)
    for (const float value : arena.subspan(parameter.offset, parameter.count))
      if (!std::isfinite(value)) return parameter.name;
  return "";
}

}  // namespace ddprun::trainer
