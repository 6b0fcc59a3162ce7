#include "trainer/run/plan/gpus.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/bounded_write.hpp"
#include "base/printable.hpp"
#include "proto/environment_names.hpp"
#include "trainer/cuda/call_watch.hpp"
#include "trainer/cuda/cuda_device.hpp"
#include "trainer/error.hpp"
#include "trainer/host/host_device.hpp"
#include "trainer/nccl/failures.hpp"
#include "trainer/nccl/nccl_communicator.hpp"
#include "trainer/run/exit_codes.hpp"

namespace ddprun::trainer {
namespace {

/// GpuRequest::newer_type.
std::string newer_type(Precision precision) {
  const bool is_newer = precision == Precision::bf16 || precision == Precision::tf32;
  return is_newer ? to_string(precision) : "";
}

GpuQuestion question_of(const Options& options, const WorkerEnvironment& environment) {
  return {.request = {.local_rank = environment.local_rank,
                      .local_world_size = environment.local_world_size,
                      .visible = environment.visible_gpus,
                      .newer_type = newer_type(options.precision.format),
                      .shares = options.device.share_gpu},
          .deterministic = !options.device.no_deterministic,
          .tf32 = options.precision.format == Precision::tf32,
          .several_ranks = environment.world_size > 1,
          .only_if_likely = options.device.kind == DeviceKind::automatic};
}

/// What only GPUs can do. `why`: ", as ..." of this worker, which trains on the CPU.
void refuse_on_cpu(const Options& options, const std::string& why) {
  if (options.precision.format == Precision::tf32)
    throw DataError(
        fmt::format("--precision=tf32 is for GPUs, but this worker trains on the CPU{}: take "
                    "--precision=fp32, or a GPU",
                    why));
}

FoundGpu refused(const std::string& why) {
  FoundGpu found;
  found.why_not = why;
  return found;
}

FoundGpu find(GpuSource& gpus, const GpuQuestion& question) {
  if (!cuda::hides_all(question.request.visible)) return gpus.find(question);
  FoundGpu found =
      refused(fmt::format("{}={} hides all GPUs: unset it, name some in it, or use --device=cpu",
                          proto::env::kCudaVisibleDevices, *question.request.visible));
  found.nothing_there = true;  // as the user wants it
  return found;
}

/// The shortest limit of a call of the driver or a library: the first ones load code, maybe from a
/// slow disk.
constexpr std::chrono::seconds kCallLimitMin{10};
constexpr std::chrono::milliseconds kLineLimit{500};

/// A thread within such a call cannot be ended, so the process is. Another start may succeed, so
/// the code is kExitPeerLost.
std::unique_ptr<cuda::CallWatch> watch_calls(std::chrono::nanoseconds timeout, int rank) {
  return std::make_unique<cuda::CallWatch>(
      std::max<std::chrono::nanoseconds>(timeout, kCallLimitMin),
      [rank](const std::string& call, std::chrono::duration<double> waited) {
        const std::string line = fmt::format(
            "train: error: rank {}: {} has not returned for {:.1f} s: the process ends; look at "
            "nvidia-smi and the kernel's log\n",
            rank, printable(call), waited.count());
        static_cast<void>(write_within(STDERR_FILENO, line, kLineLimit));
        std::_Exit(kExitPeerLost);
      });
}

}  // namespace

ChosenDevice choose_device(const Options& options, const WorkerEnvironment& environment,
                           GpuSource& gpus) {
  std::unique_ptr<cuda::CallWatch> calls;
  FoundGpu found;
  std::unique_ptr<Device> device;  // behind the GPU that it works with
  if (options.device.kind != DeviceKind::cpu) {
    try {
      found = find(gpus, question_of(options, environment));
      if (found.gpu) {
        calls = watch_calls(options.comm.timeout, environment.rank);
        found.gpu = cuda::make_guarded_gpu(std::move(found.gpu), *calls);
        device = cuda::make_cuda_device(*found.gpu);
      }
    } catch (const DataError& error) {
      found = refused(error.what());
    } catch (const cuda::OutOfGpuMemory& error) {
      found = refused(fmt::format("out of GPU memory: {}", error.what()));
    } catch (const std::exception& error) {  // a call of CUDA that failed
      if (options.device.kind == DeviceKind::cuda)
        throw DeviceError(fmt::format("rank {}: {}", environment.rank, error.what()));
      found = refused(error.what());
    }
    if (!found.gpu && options.device.kind == DeviceKind::cuda)
      throw DataError(fmt::format("--device cuda: {}", found.why_not));
  }
  ChosenDevice chosen;
  if (found.gpu) {
    chosen.calls = std::move(calls);
    chosen.gpu = std::move(found.gpu);
    chosen.nccl = std::move(found.nccl);
    chosen.device = std::move(device);
    chosen.name = chosen.gpu->facts().name;
    chosen.shares_gpus = options.device.share_gpu;
    chosen.gpu_workers = found.workers;
    chosen.deterministic = !options.device.no_deterministic;
    chosen.order = options.device.exact ? SumOrder::tree : SumOrder::chain;
    chosen.warning = gpu_warning(options, environment);
    return chosen;
  }
  refuse_on_cpu(options, found.why_not.empty() ? "" : ", as " + found.why_not);
  chosen.device = make_host_device();
  chosen.name = "the CPU";
  chosen.why_no_gpu = found.why_not;
  if (!found.why_not.empty() && !found.nothing_there)
    chosen.warning = fmt::format("--device auto: training on the CPU, as {}", found.why_not);
  return chosen;
}

std::string gpu_warning(const Options& options, const WorkerEnvironment& environment) {
  if (environment.forces_tf32 && options.precision.format == Precision::fp32)
    return fmt::format(
        "{}=1 is set: with it NVIDIA's libraries may compute --precision fp32 in tf32, which has "
        "10 bits of mantissa; unset it",
        kTf32Override);
  if (environment.forbids_tf32 && options.precision.format == Precision::tf32)
    return fmt::format(
        "{}=0 is set: with it NVIDIA's libraries compute --precision tf32 in fp32; unset it",
        kTf32Override);
  return "";
}

std::string compute_text(const ChosenDevice& chosen, Precision precision, int world_size) {
  const std::string text = chosen.device->description(precision);
  if (!chosen.gpu) return text;
  if (chosen.order == SumOrder::tree) return text + ", exact";
  if (world_size == 1) return text;
  return text + fmt::format(", sums of {} workers", world_size);
}

CommSetup make_device_communicator(const ChosenDevice& chosen, CommOptions options,
                                   std::chrono::nanoseconds timeout, Exchange* exchange,
                                   Clock::time_point deadline) {
  // Ranks on CPUs share memory.
  options.device = chosen.gpu || options.world_size == 1 ? chosen.device.get() : nullptr;
  // That of several workers replaces it once they have met.
  if (chosen.gpu) chosen.gpu->set_watch(nccl::watch_until(timeout));
  if (!chosen.gpu || options.world_size == 1 || exchange == nullptr)
    return make_communicator(options, exchange, deadline);
  nccl::set_nccl_variables({.rank = options.rank,
                            .order = options.order,
                            .shares_gpus = chosen.shares_gpus,
                            .deterministic = chosen.deterministic});
  return nccl::make_nccl_communicator({.comm = options,
                                       .gpu = *chosen.gpu,
                                       .library = chosen.nccl,
                                       .timeout = timeout,
                                       .shares_gpus = chosen.shares_gpus,
                                       .calls = chosen.calls.get()},
                                      *exchange, deadline);
}

}  // namespace ddprun::trainer
