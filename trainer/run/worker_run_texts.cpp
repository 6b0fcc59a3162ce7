// What a run reports of itself: what it sets out to do, and why it failed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/duration.hpp"
#include "base/printable.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/error.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/report/report.hpp"
#include "trainer/run/worker_run.hpp"
#include "trainer/run/worker_run_texts.hpp"

namespace ddprun::trainer {

std::string evaluation_text(const Options& options, const std::string& data, std::size_t samples,
                            int world_size, const std::string& device, int batch) {
  return fmt::format("evaluating {} on {} ({} held-out samples), {} worker{} on {}, b={}",
                     printable(options.model.init_from.value_or("")), data, samples, world_size,
                     world_size == 1 ? "" : "s", device, batch);
}

std::string handover_text(const Handover& handover, const WorkerEnvironment& environment,
                          std::int64_t step) {
  const std::vector<int> ranks = new_ranks(handover.held);
  std::string what =
      fmt::format("{} worker{}", environment.world_size, environment.world_size == 1 ? "" : "s");
  if (!ranks.empty())
    what = fmt::format("rank{} {} {} new", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "),
                       ranks.size() == 1 ? "is" : "are");
  return fmt::format(
      "round {}: {}; going on after step {} with the state of rank {} (no checkpoint was read)",
      environment.round, what, step, handover.source);
}

namespace {

std::string replicas_text(const Options& options, int replicas) {
  if (options.device.parallel == Parallel::ddp) return "";
  return fmt::format(" with {} replica{} (dp)", replicas, replicas == 1 ? "" : "s");
}

std::string memory_text(const RunMemory& planned, bool is_on_gpu) {
  if (!is_on_gpu) return bytes_text(planned.total());
  const std::string text = bytes_text(planned.on_gpu().total() + planned.stored) + " of the GPU";
  if (planned.stored == 0) return text;
  return text + fmt::format(" ({} of it for data sets)", bytes_text(planned.stored));
}

}  // namespace

std::string WorkerRun::start_text() const {
  if (folder_.start.snapshot && folder_.start.snapshot->state.step >= plan_.last_step &&
      folder_.start.snapshot->state.block != plan_.steps_per_epoch) {
    const std::string all = plan_.last_step < plan_.total_steps
                                ? fmt::format("{} steps", plan_.last_step)
                                : fmt::format("{} epoch{}", options_.batches.epochs,
                                              options_.batches.epochs == 1 ? "" : "s");
    return fmt::format("nothing to do: all {} are in {}", all, folder_.start.path);
  }
  std::string from = "from step 0";
  if (folder_.start.snapshot) {
    from =
        fmt::format("from step {} of {}", folder_.start.snapshot->state.step, folder_.start.path);
  } else if (keeps_checkpoints()) {
    from += ", checkpoints in " + folder_.out.string();
    // Another start of the same command may be another run.
    if (options_.checkpoints.out.empty())
      from += fmt::format(" (--out={} goes on there)", folder_.out.string());
  }
  return fmt::format(
      "training on {} ({} samples{}), {} worker{}{} on {}{}, V={}, b={}, memory {}, {}",
      input_.facts.name, input_.facts.samples,
      input_.sets.train->is_in_memory() ? "" : ", read anew in each epoch", environment_.world_size,
      environment_.world_size == 1 ? "" : "s", replicas_text(options_, plan_.replicas),
      chosen_.name, ranks_.sums_text, plan_.shards, plan_.batch,
      memory_text(memory_.planned, chosen_.gpu != nullptr), from);
}

std::string WorkerRun::text_of(const std::exception& error) const {
  const RunMemory& planned = memory_.planned;
  if (dynamic_cast<const cuda::OutOfGpuMemory*>(&error) != nullptr) {
    const std::string what = fmt::format("out of GPU memory: {}", error.what());
    return planned.total() == 0 ? what : out_of_memory_text(what, planned.on_gpu());
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr) return error.what();
  constexpr const char* kWhen[] = {"while the data was loaded", "before training", "in training"};
  std::string what = fmt::format("out of memory {}", kWhen[static_cast<int>(phase_)]);
  if (const auto* const asked = dynamic_cast<const OutOfMemory*>(&error))
    what += fmt::format(" ({} were asked for)", bytes_text(asked->bytes()));
  return out_of_memory_text(what, chosen_.gpu ? planned.beside_gpu() : planned, machine_memory());
}

int WorkerRun::failed(const std::exception& error) {
  const std::string text = text_of(error);
  // Printed first: the others lose this rank now.
  if (phase_ == Phase::training) {
    report_->error(text);
    if (ranks_.communicator) ranks_.communicator->abort("it failed");
    if (keeper_) keeper_->abandon();
    return dynamic_cast<const DataError*>(&error) != nullptr ? kExitUsage : kExitFailure;
  }
  int code = kExitFailure;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    code = report_failure(DataError(text));
  } else if (dynamic_cast<const DeviceError*>(&error) != nullptr) {
    code = report_failure(DeviceError(fmt::format("rank {}: {}", environment_.rank, text)));
  } else {
    code = report_failure(error);
  }
  // Else they would wait for this rank, and NCCL here for them.
  if (ranks_.communicator) ranks_.communicator->abort("it failed before training began");
  return code;
}

}  // namespace ddprun::trainer
