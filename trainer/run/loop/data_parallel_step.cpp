#include "trainer/run/loop/data_parallel_step.hpp"

#include "base/assert.hpp"
#include "trainer/compute/batch.hpp"
#include "trainer/host/host_device.hpp"

namespace ddprun::trainer {
namespace {

using Phase = DataParallelPhase;

std::vector<std::unique_ptr<Device>> make_devices(int count) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < count; ++i) devices.push_back(make_host_device());
  return devices;
}

std::vector<Device*> all_devices(Device& first,
                                 const std::vector<std::unique_ptr<Device>>& others) {
  std::vector<Device*> devices{&first};
  for (const auto& other : others) devices.push_back(other.get());
  return devices;
}

bool is_communication(Phase phase) {
  return phase == Phase::broadcast || phase == Phase::gather || phase == Phase::reduce;
}

}  // namespace

DataParallelStep::DataParallelStep(const StepParts& parts)
    : parts_(parts),
      storage_(parts.device.storage(parts.options.precision.format)),
      others_(make_devices(parts.plan.replicas - 1)),
      devices_(all_devices(parts.device, others_)),
      statistics_(statistic_ranges(parts.graph.parameters())),
      reducer_(parts.communicator, parts.device, parts.plan.shards, parts.graph.arena_size()),
      computer_(parts.graph, devices_, parts.lanes, parts.preparation,
                {.executor = {.batch = parts.plan.batch,
                              .precision = parts.options.precision.format,
                              .threads = parts.options.device.threads_per_shard},
                 .seed = parts.options.seed,
                 .shards = parts.plan.shards}),
      loss_(parts.graph, parts.device,
            {.pieces = parts.plan.replicas,
             .batch = parts.plan.batch,
             .precision = parts.options.precision.format}),
      batches_(devices_.size()) {
  DDPRUN_ASSERT(parts.communicator.world_size() == 1, "replicas are of one process");
  DDPRUN_ASSERT(parts.plan.shards % parts.plan.replicas == 0, "each replica has as many shards");
  const std::size_t size = parts.graph.arena_size();
  for (const auto& other : others_)
    copies_.push_back(
        {.parameters = other->allocate(size * sizeof(float)),
         .stored = other->allocate(storage_ == Storage::fp32 ? 0 : size * bytes_of(storage_)),
         .state = other->allocate(sizeof(StepState)),
         .gradients = other->allocate(size * sizeof(float))});
}

void DataParallelStep::time(Phase phase, const std::function<void()>& work) {
  const auto began = Clock::now();
  work();
  const Clock::duration took = Clock::now() - began;
  figures_[phase] += std::chrono::duration<double>(took).count();
  if (is_communication(phase)) exposed_ += took;
}

void DataParallelStep::on_replicas(Phase phase, const std::function<void(int)>& work) {
  time(phase, [&] { parts_.lanes.run(work); });
}

Weights DataParallelStep::weights(int replica) const {
  if (replica == 0) return parts_.learner.weights();
  const Copy& mine = copy(replica);
  const float* const master = mine.parameters.as<float>().data();
  return {master, storage_ == Storage::fp32 ? static_cast<const void*>(master)
                                            : static_cast<const void*>(mine.stored.data())};
}

ShardId DataParallelStep::shard_id(int shard, const StepState* state) const {
  return {
      .seed = parts_.options.seed, .state = state, .shard = shard, .shards = parts_.plan.shards};
}

/// The whole arena: running statistics, too.
void DataParallelStep::copy_weights(int replica) {
  if (replica == 0) return;
  const Copy& mine = copy(replica);
  const std::span<const float> master(parts_.learner.weights().master, parts_.graph.arena_size());
  device(replica).copy_in(std::as_bytes(master), mine.parameters.data());
  if (storage_ != Storage::fp32)
    device(replica).store(storage_, mine.parameters.as<float>(), mine.stored.data());
}

void DataParallelStep::compute(SampleReader& samples, const StepInputs& inputs) {
  exposed_ = {};
  on_replicas(Phase::broadcast, [&](int replica) {
    copy_weights(replica);
    if (replica > 0)
      device(replica).copy_in(std::as_bytes(std::span(inputs.others, 1)),
                              copy(replica).state.data());
  });
  reducer_.begin_step();
  for (int first = 0; first < parts_.plan.shards; first += parts_.plan.replicas)
    compute_round(samples, inputs, first);
  ++figures_.steps;
}

/// One shard on each replica.
void DataParallelStep::compute_round(SampleReader& samples, const StepInputs& inputs,
                                     int first_shard) {
  const auto batch = [&](int replica) -> Batch& {
    return batches_[static_cast<std::size_t>(replica)];
  };
  const auto executor = [&](int replica) -> GraphExecutor& {
    return computer_.lane(replica).executor();
  };
  on_replicas(Phase::read, [&](int replica) {
    const int shard = first_shard + replica;
    batch(replica) = computer_.lane(replica).shard(
        samples, inputs, shard,
        inputs.first_place + static_cast<std::size_t>(shard) * inputs.batch());
  });
  on_replicas(Phase::scatter, [&](int replica) {
    const int shard = first_shard + replica;
    const StepState* const state =
        replica == 0 ? inputs.state_of(shard) : copy(replica).state.as<StepState>().data();
    executor(replica).begin(batch(replica), weights(replica), shard_id(shard, state));
  });
  on_replicas(Phase::forward, [&](int replica) { executor(replica).forward(); });

  const auto samples_of = [&](int replica) {
    return static_cast<int>(sample_count(parts_.graph, batch(replica)));
  };
  time(Phase::gather, [&] {
    for (int replica = 0; replica < parts_.plan.replicas; ++replica)
      parts_.device.copy_in(executor(replica).logits(),
                            loss_.logits(replica, samples_of(replica)).data());
  });
  time(Phase::loss, [&] {
    for (int replica = 0; replica < parts_.plan.replicas; ++replica) {
      const int shard = first_shard + replica;
      loss_.compute(replica, batch(replica), shard_id(shard, inputs.state_of(shard)),
                    computer_.lane(0).counters());
    }
  });
  const GradientArena of_first = reducer_.begin_shard(first_shard);
  on_replicas(Phase::backward, [&](int replica) {
    device(replica).copy_in(loss_.gradient(replica, samples_of(replica)),
                            executor(replica).logits_gradient().data());
    const GradientArena arena =
        replica == 0 ? of_first : GradientArena{.floats = copy(replica).gradients.as<float>()};
    executor(replica).backward_from_logits(arena, [](std::size_t) {});
  });
  time(Phase::reduce, [&] { reduce(first_shard); });
}

/// Arrives in the order of the shards, each added where the tree has it.
void DataParallelStep::reduce(int first_shard) {
  const std::size_t size = parts_.graph.arena_size();
  reducer_.final_up_to(first_shard, size);
  for (int replica = 1; replica < parts_.plan.replicas; ++replica) {
    const GradientArena arrived = reducer_.begin_shard(first_shard + replica);
    parts_.device.copy_in(std::as_bytes(copy(replica).gradients.as<const float>()),
                          arrived.floats.data());
    // Only replica 0's statistics count.
    for (const Range& range : statistics_)
      parts_.device.clear(
          std::as_writable_bytes(arrived.floats.subspan(range.begin, range.end - range.begin)));
    reducer_.final_up_to(first_shard + replica, size);
  }
}

void DataParallelStep::update() {
  time(Phase::update, [&] {
    const std::span<const float> gradients = reducer_.gradients();
    parts_.learner.begin_update(gradients);
    parts_.learner.update(0, gradients.size(), gradients);
    parts_.learner.finish_update();
  });
}

void DataParallelStep::evaluate(SampleReader& samples,
                                const std::function<bool(double share)>& on_progress) {
  // The last update was of replica 0 alone.
  parts_.lanes.run([&](int replica) { copy_weights(replica); });
  computer_.evaluate(samples, 0, 1, [&](int replica) { return weights(replica); }, on_progress, {});
}

std::uint64_t DataParallelStep::further_peak_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& other : others_) bytes += other->peak_bytes();
  return bytes;
}

void DataParallelStep::report_to(Outcome& outcome) const {
  outcome.data_parallel = figures_;
  for (const Device* const one : devices_)
    outcome.data_parallel->peak_bytes.push_back(one->peak_bytes());
}

std::vector<Range> statistic_ranges(std::span<const Parameter> parameters) {
  std::vector<Range> ranges;
  bool is_neighbour = false;
  for (const Parameter& one : parameters) {
    const bool is_statistic = one.role == ParameterRole::statistic;
    const std::size_t end = one.offset + one.count;
    if (is_statistic && is_neighbour) {
      ranges.back().end = end;
    } else if (is_statistic) {
      ranges.push_back({one.offset, end});
    }
    is_neighbour = is_statistic;
  }
  return ranges;
}

}  // namespace ddprun::trainer
