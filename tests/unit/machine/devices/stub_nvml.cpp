// A libnvidia-ml.so.1 for tests. STUB_NVML_GPUS says how many GPUs it knows; STUB_NVML_FAILS which
// call fails.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kUnknownError = 999;
int open_sessions = 0;
char devices[16];

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
  std::snprintf(uuid, length, "GPU-%d", static_cast<int>(static_cast<char*>(device) - devices));
  return 0;
}
}
