#include "trainer/nccl/nccl_api.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace ddprun::trainer::nccl {

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

cuda::LibraryNeed Library::need() {
  return {.name = "NCCL",
          .version_function = "ncclGetVersion",
          .oldest = kOldestVersion,
          .text = [](std::size_t version) { return version_text(static_cast<int>(version)); },
          .version = [this](cuda::Symbols& symbols) -> std::size_t {
            symbols.find("ncclGetVersion", functions_.get_version);
            int version = 0;
            const Status status = functions_.get_version(&version);
            return status == Status::success && version > 0 ? static_cast<std::size_t>(version) : 0;
          },
          .find =
              [this](cuda::Symbols& symbols) {
                Functions& call = functions_;
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
              }};
}

Library::Opened Library::opened(std::shared_ptr<Library> library, cuda::FoundLibrary found) {
  if (!found.handle) return {nullptr, std::move(found.why)};
  library->found_ = std::move(found);
  return {std::move(library), ""};
}

Library::Opened Library::find(const cuda::LibraryPlaces& places, int cuda) {
  const std::shared_ptr<Library> library(new Library);
  return opened(library, cuda::open_library({.name = "NCCL 2",
                                             .file = "libnccl.so.2",
                                             .pip = fmt::format("nvidia-nccl-cu{}", cuda / 1000)},
                                            places, library->need()));
}

Library::Opened Library::open(const std::string& path) {
  const std::shared_ptr<Library> library(new Library);
  return opened(library, cuda::open_library_file(path, library->need()));
}

std::vector<std::pair<std::string, std::string>> nccl_variables(
    const NcclWishes& wishes, const std::function<const char*(const char*)>& lookup) {
  std::vector<std::pair<std::string, std::string>> variables;
  if (wishes.shares_gpus && lookup("NCCL_HOSTID") == nullptr)
    variables.emplace_back("NCCL_HOSTID", fmt::format("ddprun-rank-{}", wishes.rank));
  // If the user chooses algorithms, this one may be among them.
  const bool is_chosen = lookup("NCCL_ALGO") != nullptr || lookup("NCCL_NVLS_ENABLE") != nullptr;
  if (wishes.deterministic && wishes.order == SumOrder::chain && !is_chosen)
    variables.emplace_back("NCCL_NVLS_ENABLE", "0");
  return variables;
}

void set_nccl_variables(const NcclWishes& wishes) {
  for (const auto& [name, value] :
       nccl_variables(wishes, [](const char* name) { return std::getenv(name); }))
    setenv(name.c_str(), value.c_str(), 0);
}

}  // namespace ddprun::trainer::nccl
