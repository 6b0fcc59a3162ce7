// What a run reports of itself: what it sets out to do, and why it failed.
#include <fmt/format.h>

#include "base/duration.hpp"
#include "base/printable.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/error.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/report/report.hpp"
#include "trainer/run/worker_run.hpp"

namespace ddprun::trainer {

std::string WorkerRun::evaluation_text() const {
  return fmt::format("evaluating {} on {} ({} held-out samples), {} worker{} on {}, b={}",
                     printable(options_.model.init_from.value_or("")), input_.facts.name,
                     input_.sets.test->size(), environment_.world_size,
                     environment_.world_size == 1 ? "" : "s", chosen_.name, plan_.batch);
}

std::string WorkerRun::replicas_text() const {
  if (options_.device.parallel == Parallel::ddp) return "";
  return fmt::format(" with {} replica{} (dp)", plan_.replicas, plan_.replicas == 1 ? "" : "s");
}

std::string WorkerRun::memory_text() const {
  if (!chosen_.gpu) return bytes_text(memory_.planned.total());
  const std::string text =
      bytes_text(memory_.planned.on_gpu().total() + memory_.planned.stored) + " of the GPU";
  if (memory_.planned.stored == 0) return text;
  return text + fmt::format(" ({} of it for data sets)", bytes_text(memory_.planned.stored));
}

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
      environment_.world_size == 1 ? "" : "s", replicas_text(), chosen_.name, ranks_.sums_text,
      plan_.shards, plan_.batch, memory_text(), from);
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
    ranks_.communicator->abort("it failed");
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
