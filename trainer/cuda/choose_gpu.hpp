// Which GPU a worker uses, or why none: pure, what the driver and the plugin have said is given.
// And how the plugin is opened.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trainer/cuda/driver.hpp"
#include "trainer/cuda/plugin.hpp"

namespace ddprun::trainer::cuda {

struct GpuRequest {
  int local_rank = 0;
  int local_world_size = 1;
  std::optional<std::string> visible = {};  ///< CUDA_VISIBLE_DEVICES; none: not set
  std::string newer_type = {};  ///< a --precision of compute capability 8.0 or above: bf16, tf32
  bool shares = false;          ///< several workers may have the same: for tests
};

/// Whether CUDA_VISIBLE_DEVICES hides every GPU, so that none is used: it is empty, or its first
/// entry is -1.
bool hides_all(const std::optional<std::string>& visible);

struct GpuChoice {
  int number = 0;       ///< among the visible ones
  std::string why_not;  ///< one line; empty: this GPU
  int workers = 1;      ///< of this machine, which have it
};

/// Each worker has the GPU of its LOCAL_RANK. One that sees a single GPU beside other workers has
/// that one (ddprun's --gpu-visibility=own); two that come to the same are found when they meet.
/// Workers that share GPUs are dealt out to them in turn.
GpuChoice choose_gpu(const DriverFacts& driver, const GpuRequest& request);

/// Why kernels of a plugin do not run there; empty: they do. `cuda`: version that the plugin was
/// built with. `architectures`: CMake's list with commas, such as "80-real,90".
std::string why_kernels_do_not_run(const DriverFacts& driver, const VisibleGpu& gpu, int cuda,
                                   std::string_view architectures);

/// "9.0" of 90.
std::string capability_text(int capability);

struct OpenedPlugin {
  Plugin plugin;
  std::string path;
  std::string why_not;  ///< one line; empty: it can be used
};

/// `folder`: train's. The plugin stays open for ever.
OpenedPlugin open_plugin(const std::string& folder);

}  // namespace ddprun::trainer::cuda
