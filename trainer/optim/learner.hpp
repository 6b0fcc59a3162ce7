// A model in training: its parameters, the optimizer's moments and the step's numbers, all in the
// memory of one device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/compute/device.hpp"
#include "trainer/compute/graph_executor.hpp"
#include "trainer/model/graph.hpp"
#include "trainer/optim/optimizer.hpp"

namespace ddprun::trainer {

/// Calls that change it come from one thread, but for update(). The device's errors: allocating
/// throws std::bad_alloc.
class Learner {
 public:
  struct Settings {
    OptimizerConfig optimizer{};
    ScalerConfig scaler{};
    Precision precision = Precision::fp32;
    int shards = 1;  ///< that running statistics are summed over: V
  };

  /// All parameters are 0, the loss scale is the scaler's first one. Graph and device outlive the
  /// learner.
  Learner(const Graph& graph, Device& device, const Settings& settings);

  // ---- what a checkpoint keeps ----

  /// Arena 0 holds the parameters, the others the moments, in the order of moment_names(). `host`:
  /// arena_size floats of the host.
  [[nodiscard]] std::size_t arenas() const { return 1 + optimizer_.moments().size(); }
  void copy_out(std::size_t arena, std::span<float> host) const;
  void copy_in(std::size_t arena, std::span<const float> host);
  [[nodiscard]] std::size_t arena_size() const { return graph_.arena_size(); }
  /// Waits for the steps that are under way.
  [[nodiscard]] StepState step_state() const;
  void set_step_state(const StepState& state);
  /// The first parameter that is an inf or nan, "conv1.weight", or has such a moment, "exp_avg of
  /// conv1.weight"; empty: none. Waits for the device.
  [[nodiscard]] std::string non_finite() const;
  /// Hash of the parameters: see hash_floats().
  [[nodiscard]] std::uint64_t hash() const { return device_.hash(parameters_.as<float>()); }

  /// Hash of all that a checkpoint keeps of it: parameters, moments, and the numbers of the steps
  /// done.
  [[nodiscard]] std::uint64_t hash_of_all() const;

  // ---- going back to an earlier step ----

  /// Takes memory for keep(): as much as arenas() take. Throws std::bad_alloc.
  void make_room_to_keep();
  /// Keeps all that a checkpoint does, as it is after the work so far.
  void keep();
  /// What keep() has kept is there again.
  void go_back();

  // ---- what executors read ----

  [[nodiscard]] Weights weights() const;
  /// In the device's memory.
  [[nodiscard]] const StepState* state() const { return state_.as<StepState>().data(); }

  // ---- one step ----

  /// Learning rate of the next update.
  void set_learning_rate(float rate);
  /// `gradients`: the sum over all shards, of the whole arena. With loss scaling looks for infs,
  /// and measures the norm where gradients are clipped.
  void begin_update(std::span<const float> gradients);
  /// Ranges that together cover the arena, from any threads.
  void update(std::size_t begin, std::size_t end, std::span<const float> gradients);
  /// Once, after all ranges: counts the step and moves the loss scale.
  void finish_update();

 private:
  [[nodiscard]] StepState& state_there() const { return state_.as<StepState>().front(); }
  [[nodiscard]] std::span<float> arena(std::size_t index) const;
  [[nodiscard]] bool is_finite(std::span<const float> arena) const;
  void store_weights();

  const Graph& graph_;
  Device& device_;
  ScalerConfig scaler_;
  Storage storage_;
  Optimizer optimizer_;
  DeviceMemory parameters_;
  DeviceMemory stored_;             // the parameters in the storage type; fp32: empty
  DeviceMemory state_;              // one StepState
  DeviceMemory looked_;             // another one, where non_finite() looks
  std::vector<DeviceMemory> kept_;  // the arenas and the state; empty: there is no room
};

/// The name of the first parameter with an inf or nan in an arena of the host; empty: none.
std::string non_finite_in(std::span<const float> arena, std::span<const Parameter> parameters);

}  // namespace ddprun::trainer
