#include "trainer/cuda/driver.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "trainer/cuda/open_library.hpp"

namespace ddprun::trainer::cuda {
namespace {

// From cuda.h, whose numbers never change.
using Result = int;
using Device = int;
constexpr Result kSuccess = 0;
constexpr Result kNoDevice = 100;
constexpr int kMajorAttribute = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kMinorAttribute = 76;

constexpr const char* kNoGpu =
    "the NVIDIA driver shows no GPU to this process: look at nvidia-smi and CUDA_VISIBLE_DEVICES, "
    "or use --device=cpu";

struct Calls {
  Result (*init)(unsigned flags);
  Result (*version)(int* version);
  Result (*count)(int* count);
  Result (*device)(Device* device, int number);
  Result (*name)(char* name, int bytes, Device device);
  Result (*memory)(std::size_t* bytes, Device device);
  Result (*attribute)(int* value, int attribute, Device device);
  Result (*error_string)(Result result, const char** text);
};

std::string text_of(const Calls& call, Result result) {
  const char* text = nullptr;
  const bool known = call.error_string(result, &text) == kSuccess && text != nullptr;
  return known ? fmt::format("{} (CUDA error {})", text, result)
               : fmt::format("CUDA error {}", result);
}

/// Waits as long as the driver wants.
DriverFacts ask(const std::string& library) {
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const LibraryAttempt failed = failed_attempt({library, ""}, dlerror());
    if (failed.result == LibraryAttempt::Result::absent)
      return {.why_not = fmt::format("no NVIDIA driver was found ({}): install it, or use "
                                     "--device=cpu",
                                     library)};
    return {.why_not = fmt::format("the NVIDIA driver cannot be opened (install it again, or use "
                                   "--device=cpu): {}",
                                   failed.why)};
  }
  // Never closed: threads of the driver may live as long as the process.
  const LibraryHandle driver(opened, [](void*) {});
  Calls call{};
  Symbols symbols(driver);
  symbols.find("cuInit", call.init);
  symbols.find("cuDriverGetVersion", call.version);
  symbols.find("cuDeviceGetCount", call.count);
  symbols.find("cuDeviceGet", call.device);
  symbols.find("cuDeviceGetName", call.name);
  symbols.find("cuDeviceTotalMem_v2", call.memory);
  symbols.find("cuDeviceGetAttribute", call.attribute);
  symbols.find("cuGetErrorString", call.error_string);
  if (!symbols.missing().empty())
    return {.why_not = fmt::format(
                "{} is no NVIDIA driver: it has no {}; install the driver again, or use "
                "--device=cpu",
                library, symbols.missing())};
  DriverFacts facts;
  const Result begun = call.init(0);
  if (begun == kNoDevice) {
    facts.why_not = kNoGpu;
    return facts;
  }
  const auto fails = [&](Result result, const char* function) {
    if (result == kSuccess) return false;
    facts.why_not =
        fmt::format("the NVIDIA driver failed in {}: {}; look at nvidia-smi, or use --device=cpu",
                    function, text_of(call, result));
    return true;
  };
  int count = 0;
  if (fails(begun, "cuInit") || fails(call.version(&facts.version), "cuDriverGetVersion") ||
      fails(call.count(&count), "cuDeviceGetCount"))
    return facts;
  for (int number = 0; number < count; ++number) {
    VisibleGpu gpu;
    Device device = 0;
    int major = 0;
    int minor = 0;
    std::array<char, 256> name{};
    if (fails(call.device(&device, number), "cuDeviceGet") ||
        fails(call.name(name.data(), static_cast<int>(name.size()) - 1, device),
              "cuDeviceGetName") ||
        fails(call.memory(&gpu.memory, device), "cuDeviceTotalMem") ||
        fails(call.attribute(&major, kMajorAttribute, device), "cuDeviceGetAttribute") ||
        fails(call.attribute(&minor, kMinorAttribute, device), "cuDeviceGetAttribute"))
      return facts;
    gpu.name = name.data();
    gpu.capability = major * 10 + minor;
    facts.gpus.push_back(std::move(gpu));
  }
  if (facts.gpus.empty()) facts.why_not = kNoGpu;
  return facts;
}

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

DriverFacts ask_driver(const std::string& library, const DriverWait& wait) {
  struct Answer {
    std::mutex mutex;
    std::condition_variable come;
    std::optional<DriverFacts> facts;
  };
  const auto answer = std::make_shared<Answer>();
  // Not joined: nothing ends a call into a driver that hangs.
  std::thread([answer, library] {
    DriverFacts facts = ask(library);
    const std::lock_guard lock(answer->mutex);
    answer->facts = std::move(facts);
    answer->come.notify_all();
  }).detach();
  std::unique_lock lock(answer->mutex);
  const auto has_come = [&] { return answer->facts.has_value(); };
  const auto began = std::chrono::steady_clock::now();
  if (!answer->come.wait_until(lock, began + std::min(wait.warn_after, wait.limit), has_come) &&
      wait.warn && wait.warn_after < wait.limit) {
    wait.warn(
        fmt::format("the NVIDIA driver has not answered for {:g} s (cuInit); waiting up to "
                    "{:g} s",
                    seconds(wait.warn_after), seconds(wait.limit)));
  }
  if (!answer->come.wait_until(lock, began + wait.limit, has_come))
    return {.why_not =
                fmt::format("the NVIDIA driver has not answered within {:g} s (cuInit): look "
                            "at nvidia-smi and the kernel's log, or use --device=cpu",
                            seconds(wait.limit))};
  return std::move(*answer->facts);
}

bool driver_likely(const std::string& dev, const std::string& library) {
  const auto is_there = [&](const char* file) { return ::access((dev + file).c_str(), F_OK) == 0; };
  // A PC or server, Jetson.
  for (const char* file : {"/nvidiactl", "/nvhost-gpu", "/nvgpu"})
    if (is_there(file)) return true;
  // WSL 2, whatever the maker of the GPU: the driver's library tells.
  void* const opened = is_there("/dxg") ? dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL) : nullptr;
  if (opened == nullptr) return false;
  dlclose(opened);
  return true;
}

}  // namespace ddprun::trainer::cuda
