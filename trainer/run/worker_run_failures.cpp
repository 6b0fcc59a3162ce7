// How a run ends that failed.
#include <fmt/format.h>

#include "base/duration.hpp"
#include "trainer/compute/buffer.hpp"
#include "trainer/error.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/failure_line.hpp"
#include "trainer/run/worker_run.hpp"

namespace ddprun::trainer {

std::string WorkerRun::text_of(const std::exception& error) const {
  if (dynamic_cast<const cuda::OutOfGpuMemory*>(&error) != nullptr)
    return out_of_memory_text(fmt::format("out of GPU memory: {}", error.what()), memory_,
                              memory_.on_gpu() + memory_.stored);
  if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr) return error.what();
  constexpr const char* kWhen[] = {"while the data was loaded", "before training", "in training"};
  std::string what = fmt::format("out of memory {}", kWhen[static_cast<int>(phase_)]);
  if (const auto* const asked = dynamic_cast<const OutOfMemory*>(&error))
    what += fmt::format(" ({} were asked for)", bytes_text(asked->bytes()));
  // What a GPU's run takes of the host's memory is not planned.
  return out_of_memory_text(what, memory_, chosen_.gpu ? 0 : memory_.total(), machine_memory());
}

int WorkerRun::failed(const std::exception& error) {
  const std::string text = text_of(error);
  // Printed first: the others lose this rank now.
  if (phase_ == Phase::training) {
    report_->error(text);
    communicator_->abort("it failed");
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
  if (communicator_) communicator_->abort("it failed before training began");
  return code;
}

}  // namespace ddprun::trainer
