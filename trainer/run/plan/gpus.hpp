// On which device a worker trains: --device, and the GPUs that there are.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "trainer/comm/make_communicator.hpp"
#include "trainer/compute/device.hpp"
#include "trainer/cuda/call_watch.hpp"
#include "trainer/cuda/choose_gpu.hpp"
#include "trainer/cuda/gpu.hpp"
#include "trainer/nccl/nccl_api.hpp"
#include "trainer/run/cli/environment.hpp"
#include "trainer/run/cli/options.hpp"

namespace ddprun::trainer {

struct FoundGpu {
  std::unique_ptr<cuda::Gpu> gpu;               ///< null: see `why_not`
  std::shared_ptr<const nccl::Library> nccl{};  ///< of several workers
  int workers = 1;                              ///< of this machine, which have the GPU
  std::string why_not{};                        ///< one line
  bool nothing_there = false;  ///< nothing of a GPU or its driver: not worth a warning
};

struct GpuQuestion {
  cuda::GpuRequest request;
  bool deterministic = true;
  bool tf32 = false;
  bool several_ranks = false;
  bool only_if_likely = false;  ///< --device=auto: a machine without a GPU costs no time
};

/// Where GPUs come from. Tests have others than the machine's.
class GpuSource {
 public:
  virtual ~GpuSource() = default;
  virtual FoundGpu find(const GpuQuestion& question) = 0;
  /// What train uses for GPUs, and from where: lines of --version.
  virtual std::string versions() = 0;
};

/// Those of this machine, by libtrain_cuda.so in `folder`.
class MachineGpus final : public GpuSource {
 public:
  MachineGpus();  ///< beside this program
  explicit MachineGpus(std::string folder) : folder_(std::move(folder)) {}
  FoundGpu find(const GpuQuestion& question) override;
  std::string versions() override;

 private:
  std::string folder_;
};

struct ChosenDevice {
  /// Watches the GPU's calls and those that end NCCL; null: the CPU. Outlives both.
  std::unique_ptr<cuda::CallWatch> calls;
  std::unique_ptr<cuda::Gpu> gpu;  ///< null: the CPU
  std::shared_ptr<const nccl::Library> nccl;
  std::unique_ptr<Device> device;
  bool shares_gpus = false;  ///< several workers may have the GPU
  int gpu_workers = 1;       ///< of this machine, which have it
  bool deterministic = true;
  SumOrder order = SumOrder::tree;
  std::string name;        ///< "the CPU", "NVIDIA H200"
  std::string why_no_gpu;  ///< of the CPU, under --device=auto
  /// That --device=auto trains on the CPU though a GPU may be here, or that a GPU computes
  /// otherwise than was asked for.
  std::string warning;
};

/// Throws DataError where --device=cuda cannot be.
ChosenDevice choose_device(const Options& options, const WorkerEnvironment& environment,
                           GpuSource& gpus);

/// What a run on a GPU is warned of; empty: nothing.
std::string gpu_warning(const Options& options, const WorkerEnvironment& environment);

/// What the last bits depend on, in words: device and libraries; on GPUs also the number of
/// workers, or ", exact" where it does not matter.
std::string compute_text(const ChosenDevice& chosen, Precision precision, int world_size);

/// On the device's memory: over NCCL where there are several workers with GPUs.
CommSetup make_device_communicator(const ChosenDevice& chosen, CommOptions options,
                                   std::chrono::nanoseconds timeout, Exchange* exchange,
                                   Clock::time_point deadline);

}  // namespace ddprun::trainer
