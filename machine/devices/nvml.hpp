// What NVIDIA's driver tells by its library NVML, which is opened at run time: its header is not
// needed to build. https://docs.nvidia.com/deploy/nvml-api
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/system/result.hpp>

#include "machine/devices/devices.hpp"

namespace ddprun::machine {

struct GpuProcess {
  pid_t pid = 0;
  std::uint64_t bytes = 0;  ///< of the GPU's memory; 0: the driver does not tell
};

/// What uses one GPU, or one MIG instance.
struct GpuUse {
  /// That compute there; a container sees its own ones only.
  std::vector<GpuProcess> processes;
  /// What all programs have together, without the driver's own part; none: not told, or a screen's
  /// programs have a share.
  std::optional<std::uint64_t> used_bytes;
  std::string problem;  ///< not empty: why neither is known
};

/// How busy one GPU is. None: the driver does not tell, as of a MIG instance's share.
struct GpuLoad {
  std::optional<unsigned> percent;  ///< of the last moments, in which anything ran there
  std::optional<std::uint64_t> used_bytes;
  std::optional<std::uint64_t> total_bytes;
};

/// One session with the driver.
class Nvml {
 public:
  /// `library`: for dlopen. Errors: words for a message.
  static boost::system::result<Nvml, std::string> open(const std::string& library);

  /// Those that this user and this container may use.
  [[nodiscard]] boost::system::result<std::vector<Gpu>, std::string> gpus() const;

  /// `uuid`: GPU-... or MIG-..., whole.
  [[nodiscard]] GpuUse use_of(const std::string& uuid) const;

  /// `uuid`: GPU-..., whole.
  [[nodiscard]] GpuLoad load_of(const std::string& uuid) const;

 private:
  struct Session;
  explicit Nvml(std::shared_ptr<const Session> session) : session_(std::move(session)) {}

  std::shared_ptr<const Session> session_;
};

}  // namespace ddprun::machine
