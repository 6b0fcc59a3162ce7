#include "trainer/cuda/choose_gpu.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "trainer/cuda/plugin.hpp"
#include "trainer/cuda/plugin_id.hpp"  // generated, see CMakeLists.txt

namespace ddprun::trainer::cuda {
namespace {

/// The first one with bf16 and tf32 in hardware.
constexpr int kNewerTypesCapability = 80;

std::string counted(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

struct Architecture {
  int capability = 0;
  bool has_code = true;  // for it, and later ones with the same major version
  bool has_ptx = true;   // which drivers translate for any later one
};

/// Nothing of what is no number: "native", "all".
std::optional<Architecture> parse_architecture(std::string_view text) {
  Architecture one;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, one.capability);
  if (error != std::errc()) return std::nullopt;
  const std::string_view kind(stop, static_cast<std::size_t>(end - stop));
  // 90a and 100f have features of one GPU alone: no others run them.
  const bool is_narrow = kind.starts_with("a") || kind.starts_with("f");
  one.has_code = !kind.ends_with("-virtual");
  one.has_ptx = !kind.ends_with("-real") && !is_narrow;
  return one;
}

}  // namespace

std::string capability_text(int capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

bool hides_all(const std::optional<std::string>& visible) {
  return visible && (visible->empty() || *visible == "-1" || visible->starts_with("-1,"));
}

GpuChoice choose_gpu(const DriverFacts& driver, const GpuRequest& request) {
  const std::string visible =
      request.visible ? fmt::format(" (CUDA_VISIBLE_DEVICES={})", *request.visible) : "";
  const auto refuse = [](std::string why) {
    return GpuChoice{.number = 0, .why_not = std::move(why)};
  };
  if (!driver.why_not.empty()) return refuse(driver.why_not + visible);
  const std::size_t count = driver.gpus.size();
  const bool has_own = count == 1 && request.local_world_size > 1 && request.visible &&
                       request.visible->find(',') == std::string::npos;
  if (!has_own && !request.shares && static_cast<std::size_t>(request.local_world_size) > count)
    return refuse(
        fmt::format("{} on this machine, but {} visible to them{}: start at most one "
                    "worker for each GPU (--nproc-per-node=gpu)",
                    counted(static_cast<std::size_t>(request.local_world_size), "worker"),
                    count == 1 ? "1 GPU is" : fmt::format("{} GPUs are", count), visible));
  int number = has_own ? 0 : request.local_rank;
  if (request.shares && count > 0) number %= static_cast<int>(count);
  if (static_cast<std::size_t>(number) >= count)
    return refuse(fmt::format(
        "LOCAL_RANK={} has no GPU: {} visible to this worker{}, numbered from 0; start at most one "
        "worker for each GPU (--nproc-per-node=gpu)",
        request.local_rank, count == 1 ? "1 is" : fmt::format("{} are", count), visible));
  const VisibleGpu& gpu = driver.gpus[static_cast<std::size_t>(number)];
  if (!request.newer_type.empty() && gpu.capability < kNewerTypesCapability)
    return refuse(
        fmt::format("--precision {}: {} has compute capability {} and no instructions for "
                    "{}, which came with {}: use fp16 or fp32",
                    request.newer_type, gpu.name, capability_text(gpu.capability),
                    request.newer_type, capability_text(kNewerTypesCapability)));
  GpuChoice choice{.number = number, .why_not = {}};
  // Workers that see one GPU each may share it or not: that is not known here.
  if (request.shares && !has_own) {
    const int gpus = static_cast<int>(count);
    choice.workers = std::max(1, (request.local_world_size - number + gpus - 1) / gpus);
  }
  return choice;
}

std::string why_kernels_do_not_run(const DriverFacts& driver, const VisibleGpu& gpu, int cuda,
                                   std::string_view architectures) {
  // Within a major version every driver runs what any CUDA has compiled.
  if (driver.version / 1000 < cuda / 1000)
    return fmt::format(
        "the NVIDIA driver is too old: it knows CUDA up to {}, and this build needs "
        "{}.0: update the driver, or build with an older CUDA",
        cuda_version_text(driver.version), cuda / 1000);
  std::string built;
  bool all_known = true;
  while (!architectures.empty()) {
    const std::size_t end = std::min(architectures.find(','), architectures.size());
    const auto one = parse_architecture(architectures.substr(0, end));
    architectures.remove_prefix(std::min(end + 1, architectures.size()));
    if (!one) {
      all_known = false;
      continue;
    }
    const bool same_major = gpu.capability / 10 == one->capability / 10;
    if (one->has_code && same_major && gpu.capability >= one->capability) return "";
    // Translating PTX needs a driver that is no older than its compiler.
    const bool translates = driver.version >= cuda || same_major;
    if (one->has_ptx && gpu.capability >= one->capability && translates) return "";
    built += fmt::format("{}{}{}", built.empty() ? "" : ", ", capability_text(one->capability),
                         one->has_ptx ? " and newer" : "");
  }
  if (!all_known) return "";  // found out when the first kernel is launched
  return fmt::format(
      "{} has compute capability {}, but the kernels of this build are for {}: "
      "build with -DCMAKE_CUDA_ARCHITECTURES={}",
      gpu.name, capability_text(gpu.capability), built, gpu.capability);
}

OpenedPlugin open_plugin(const std::string& folder) {
  OpenedPlugin result{.plugin = {}, .path = folder + "/" + kPluginFile, .why_not = {}};
  if (::access(result.path.c_str(), F_OK) != 0) {
    result.why_not = fmt::format(
        "{} is missing: build train with CUDA and cuDNN and install both files together, "
        "or use --device=cpu",
        result.path);
    return result;
  }
  void* const handle = dlopen(result.path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    result.why_not = fmt::format("{} cannot be opened: {}", kPluginFile, dlerror());
    return result;
  }
  const auto function = reinterpret_cast<PluginFunction>(dlsym(handle, kPluginSymbol));
  const char* const id = function == nullptr ? nullptr : function(kPluginId, &result.plugin);
  if (id == nullptr) {
    result.why_not =
        fmt::format("{} is no plugin of train (it has no function {}): install train again",
                    result.path, kPluginSymbol);
  } else if (std::strcmp(id, kPluginId) != 0) {
    result.why_not = fmt::format(
        "{} is of another build ({}) than train ({}): build or install "
        "both together",
        result.path, id, kPluginId);
  }
  return result;
}

}  // namespace ddprun::trainer::cuda
