// How busy the GPUs of workers are, by NVML.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/ctl/top_model.hpp"
#include "machine/devices/nvml.hpp"

namespace ddprun::ctl {

/// The devices that one value of CUDA_VISIBLE_DEVICES names, together: the mean of their loads, the
/// sum of their memory. Nothing is known where one of them is a MIG instance, or unknown. Pure.
DeviceUse use_of(const std::string& devices, const std::vector<machine::Gpu>& gpus,
                 const std::function<machine::GpuLoad(const std::string& uuid)>& load_of);

/// Reads in a thread of its own: the driver may take seconds for its first answer, and more where a
/// GPU is broken.
class DeviceWatch {
 public:
  DeviceWatch();
  /// Waits for the thread half a second. One that hangs in the driver is left to the end of the
  /// process.
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// Begins to read these, unless the driver still has not answered what was asked before. The
  /// first call with any devices opens NVML; where there is none, nothing is read.
  void ask(std::vector<std::string> devices);
  /// What was read last.
  [[nodiscard]] DeviceUses newest() const;

 private:
  struct Shared;
  static void work(const std::shared_ptr<Shared>& shared);

  const std::shared_ptr<Shared> shared_;
};

}  // namespace ddprun::ctl
