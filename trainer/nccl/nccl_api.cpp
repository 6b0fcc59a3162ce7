#include "trainer/nccl/nccl_api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

namespace ddprun::trainer::nccl {
namespace {

/// Names the first function that is missing.
class Symbols {
 public:
  explicit Symbols(void* handle) : handle_(handle) {}

  template <class Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  void* handle_;
  std::string missing_;
};

std::string path_of(void* function, const std::string& otherwise) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : otherwise;
}

}  // namespace

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Library::Opened Library::open(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return {nullptr, dlerror()};
  std::unique_ptr<Library> library(new Library);
  library->handle_ = handle;
  Symbols symbols(handle);
  Functions& call = library->functions_;
  symbols.find("ncclGetVersion", call.get_version);
  symbols.find("ncclGetUniqueId", call.get_unique_id);
  symbols.find("ncclCommInitRankConfig", call.comm_init_rank_config);
  symbols.find("ncclCommGetAsyncError", call.comm_get_async_error);
  symbols.find("ncclCommDestroy", call.comm_destroy);
  symbols.find("ncclCommAbort", call.comm_abort);
  symbols.find("ncclGetErrorString", call.get_error_string);
  symbols.find("ncclGetLastError", call.get_last_error);
  symbols.find("ncclAllReduce", call.all_reduce);
  symbols.find("ncclBroadcast", call.broadcast);
  symbols.find("ncclAllGather", call.all_gather);
  symbols.find("ncclSend", call.send);
  symbols.find("ncclRecv", call.recv);
  symbols.find("ncclGroupStart", call.group_start);
  symbols.find("ncclGroupEnd", call.group_end);
  if (call.get_version != nullptr && call.get_version(&library->version_) == Status::success &&
      library->version_ < kOldestVersion) {
    return {nullptr, fmt::format("{} is NCCL {}, and {} is the oldest that is used",
                                 path_of(reinterpret_cast<void*>(call.get_version), path),
                                 version_text(library->version_), version_text(kOldestVersion))};
  }
  if (!symbols.missing().empty())
    return {nullptr, fmt::format("{} has no function {}", path, symbols.missing())};
  library->path_ = path_of(reinterpret_cast<void*>(call.get_version), path);
  return {std::move(library), ""};
}

Library::~Library() {
  if (handle_ != nullptr) dlclose(handle_);
}

}  // namespace ddprun::trainer::nccl
