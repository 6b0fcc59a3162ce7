#include "machine/devices/nvml.hpp"

#include <dlfcn.h>

#include <array>
#include <utility>

#include <fmt/format.h>

namespace ddprun::machine {
namespace {

using Device = void*;

constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
constexpr unsigned kUuidBytes = 96;  // NVML_DEVICE_UUID_V2_BUFFER_SIZE

/// nvmlPciInfo_t, as nvmlDeviceGetPciInfo_v3 fills it.
struct PciInfo {
  char short_address[16];
  unsigned numbers[5];  // domain, bus, device, and two ids
  char address[32];     // 00000000:41:00.0
};

/// nvmlProcessInfo_t, as the functions of versions 2 and 3 fill it.
struct ProcessInfo {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
constexpr auto kBytesNotTold = ~0ULL;

/// nvmlMemory_v2_t.
struct MemoryInfo {
  unsigned version = sizeof(MemoryInfo) | 2U << 24U;  // NVML_STRUCT_VERSION(Memory, 2)
  unsigned long long total = 0;
  unsigned long long reserved = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

/// nvmlUtilization_t.
struct Utilization {
  unsigned gpu = 0;
  unsigned memory = 0;
};

using ListProcesses = int(Device, unsigned*, ProcessInfo*);

}  // namespace

struct Nvml::Session {
  using Library = std::unique_ptr<void, int (*)(void*)>;

  explicit Session(Library opened) : library(std::move(opened)) {}
  ~Session() {
    if (begun) shutdown();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  template <class Function>
  bool load(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(::dlsym(library.get(), name));
    return function != nullptr;
  }

  Library library;
  bool begun = false;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Device*) = nullptr;
  int (*uuid)(Device, char*, unsigned) = nullptr;
  // We can do without these.
  int (*pci)(Device, PciInfo*) = nullptr;
  int (*by_uuid)(const char*, Device*) = nullptr;
  ListProcesses* compute_processes = nullptr;
  ListProcesses* graphics_processes = nullptr;
  int (*memory)(Device, MemoryInfo*) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
};

boost::system::result<Nvml, std::string> Nvml::open(const std::string& library) {
  auto session = std::make_shared<Session>(
      Session::Library(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL), &::dlclose));
  Session& nvml = *session;
  if (!nvml.library) return std::string("not found");
  if (!nvml.load("nvmlInit_v2", nvml.init) || !nvml.load("nvmlShutdown", nvml.shutdown) ||
      !nvml.load("nvmlDeviceGetCount_v2", nvml.count) ||
      !nvml.load("nvmlDeviceGetHandleByIndex_v2", nvml.by_index) ||
      !nvml.load("nvmlDeviceGetUUID", nvml.uuid)) {
    return std::string("lacks a function");
  }
  nvml.load("nvmlDeviceGetPciInfo_v3", nvml.pci);
  nvml.load("nvmlDeviceGetHandleByUUID", nvml.by_uuid);
  nvml.load("nvmlDeviceGetMemoryInfo_v2", nvml.memory);
  nvml.load("nvmlDeviceGetUtilizationRates", nvml.utilization);
  for (const auto& [name, function] :
       {std::pair{"Compute", &nvml.compute_processes}, {"Graphics", &nvml.graphics_processes}}) {
    const std::string call = fmt::format("nvmlDeviceGet{}RunningProcesses", name);
    if (!nvml.load((call + "_v3").c_str(), *function)) nvml.load((call + "_v2").c_str(), *function);
  }
  if (const int code = nvml.init(); code != kSuccess)
    return fmt::format("nvmlInit failed with code {}", code);
  nvml.begun = true;
  return Nvml(std::move(session));
}

boost::system::result<std::vector<Gpu>, std::string> Nvml::gpus() const {
  std::vector<Gpu> gpus;
  unsigned count = 0;
  if (const int code = session_->count(&count); code != kSuccess)
    return fmt::format("nvmlDeviceGetCount failed with code {}", code);
  for (unsigned i = 0; i < count; ++i) {
    // A GPU that this user or container may not use has no handle; CUDA does not count it either.
    Device device = nullptr;
    if (session_->by_index(i, &device) != kSuccess) continue;
    std::array<char, kUuidBytes> uuid{};
    if (session_->uuid(device, uuid.data(), kUuidBytes) != kSuccess) uuid[0] = '\0';
    uuid.back() = '\0';
    PciInfo pci{};
    if (session_->pci == nullptr || session_->pci(device, &pci) != kSuccess) pci.address[0] = '\0';
    pci.address[sizeof pci.address - 1] = '\0';
    gpus.push_back({static_cast<int>(gpus.size()), uuid.data(), sysfs_spelling(pci.address)});
  }
  return gpus;
}

namespace {

/// None: the driver does not tell.
std::optional<std::vector<GpuProcess>> processes(ListProcesses* list, Device device) {
  constexpr unsigned kMore = 16;  // may start between two calls
  constexpr int kTries = 10;
  if (list == nullptr) return std::nullopt;
  std::vector<ProcessInfo> found;
  unsigned count = 0;
  int code = kInsufficientSize;
  for (int i = 0; i < kTries && code == kInsufficientSize; ++i) {
    found.resize(count + kMore);
    count = static_cast<unsigned>(found.size());
    code = list(device, &count, found.data());
  }
  if (code != kSuccess) return std::nullopt;
  std::vector<GpuProcess> processes;
  for (unsigned i = 0; i < count; ++i) {
    processes.push_back(
        {static_cast<pid_t>(found[i].pid), found[i].bytes == kBytesNotTold ? 0 : found[i].bytes});
  }
  return processes;
}

}  // namespace

GpuUse Nvml::use_of(const std::string& uuid) const {
  GpuUse use;
  Device device = nullptr;
  if (session_->by_uuid == nullptr || session_->by_uuid(uuid.c_str(), &device) != kSuccess) {
    use.problem = "NVML does not find it by its UUID";
    return use;
  }
  const auto computing = processes(session_->compute_processes, device);
  const auto drawing = processes(session_->graphics_processes, device);
  MemoryInfo memory;
  const bool knows_memory =
      session_->memory != nullptr && session_->memory(device, &memory) == kSuccess;
  if (!computing && !knows_memory) use.problem = "NVML does not tell what uses it";
  if (computing) use.processes = *computing;
  if (knows_memory && (!drawing || drawing->empty())) use.used_bytes = memory.used;
  return use;
}

GpuLoad Nvml::load_of(const std::string& uuid) const {
  GpuLoad load;
  Device device = nullptr;
  if (session_->by_uuid == nullptr || session_->by_uuid(uuid.c_str(), &device) != kSuccess)
    return load;
  Utilization rates;
  if (session_->utilization != nullptr && session_->utilization(device, &rates) == kSuccess)
    load.percent = rates.gpu;
  MemoryInfo memory;
  if (session_->memory != nullptr && session_->memory(device, &memory) == kSuccess) {
    load.used_bytes = memory.used;
    load.total_bytes = memory.total;
  }
  return load;
}

}  // namespace ddprun::machine
