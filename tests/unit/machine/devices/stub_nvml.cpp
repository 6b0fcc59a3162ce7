// A libnvidia-ml.so.1 for tests. STUB_NVML_GPUS says how many GPUs it knows, STUB_NVML_NAME what
// their UUIDs have before their number, STUB_NVML_FAILS which call fails. STUB_NVML_USED is a file
// with a line for each process: GPU, pid, bytes; with pid 0 it is one that is not seen from here,
// with a pid below 0 one that draws.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kUnknownError = 999;
int open_sessions = 0;
char devices[16];

struct ProcessInfo {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct MemoryInfo {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

int index_of(const void* device) {
  return static_cast<int>(static_cast<const char*>(device) - devices);
}

/// Calls `use` with pid and bytes of each line of this GPU.
template <class Use>
void read_used(const void* device, Use use) {
  const char* path = std::getenv("STUB_NVML_USED");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "re");
  if (file == nullptr) return;
  int gpu = 0;
  int pid = 0;
  unsigned long long bytes = 0;
  while (std::fscanf(file, "%d %d %llu", &gpu, &pid, &bytes) == 3) {
    if (gpu == index_of(device)) use(pid, bytes);
  }
  std::fclose(file);
}

int list_processes(void* device, unsigned* count, ProcessInfo* infos, bool drawing) {
  unsigned found = 0;
  read_used(device, [&](int pid, unsigned long long bytes) {
    if (pid == 0 || (pid < 0) != drawing) return;
    if (found < *count) infos[found] = {static_cast<unsigned>(pid), bytes, ~0U, ~0U};
    ++found;
  });
  const bool fits = found <= *count;
  *count = found;
  constexpr int kInsufficientSize = 7;
  return fits ? 0 : kInsufficientSize;
}

bool fails(const char* call) {
  const char* name = std::getenv("STUB_NVML_FAILS");
  return name != nullptr && std::strcmp(name, call) == 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  if (fails("init")) return kUnknownError;
  ++open_sessions;
  return 0;
}

int nvmlShutdown() {
  --open_sessions;
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  if (open_sessions != 1 || fails("count")) return kUnknownError;
  const char* gpus = std::getenv("STUB_NVML_GPUS");
  *count = gpus == nullptr ? 0 : static_cast<unsigned>(std::atoi(gpus));
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  // The last GPU belongs to another user.
  if (fails("handle") && index == 1) return kUnknownError;
  *device = &devices[index];
  return 0;
}

int nvmlDeviceGetPciInfo_v3(void* device, void* info) {
  if (fails("pci")) return kUnknownError;
  // The long spelling stands last, after 16 bytes of the short one and five numbers.
  std::snprintf(static_cast<char*>(info) + 36, 32, "00000000:%02X:00.0",
                static_cast<unsigned>(static_cast<char*>(device) - devices) + 0x1a);
  return 0;
}

int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  if (fails("uuid")) return kUnknownError;
  const char* name = std::getenv("STUB_NVML_NAME");
  std::snprintf(uuid, length, "GPU-%s%d", name == nullptr ? "" : name, index_of(device));
  return 0;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  char known[96];
  for (char& one : devices) {
    nvmlDeviceGetUUID(&one, known, sizeof known);
    if (std::strcmp(known, uuid) != 0) continue;
    *device = &one;
    return 0;
  }
  return kUnknownError;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, ProcessInfo* infos) {
  return fails("processes") ? kUnknownError : list_processes(device, count, infos, false);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void* device, unsigned* count, ProcessInfo* infos) {
  return fails("processes") ? kUnknownError : list_processes(device, count, infos, true);
}

int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
  if (fails("utilization")) return kUnknownError;
  rates[0] = 50 + static_cast<unsigned>(index_of(device));
  rates[1] = 7;
  return 0;
}

int nvmlDeviceGetMemoryInfo_v2(void* device, MemoryInfo* memory) {
  constexpr unsigned kVersion = sizeof(MemoryInfo) | 2U << 24U;
  if (fails("memory") || memory->version != kVersion) return kUnknownError;
  memory->total = 1ULL << 34U;
  memory->used = 1ULL << 20U;
  read_used(device, [&](int, unsigned long long bytes) { memory->used += bytes; });
  return 0;
}
}
