// The part of NCCL that is used here, opened at run time. The declarations are those of NVIDIA's
// nccl.h, version 2.18 and newer (its C interface keeps them from release to release), so that
// neither header nor library is needed to build. And the environment variables of NCCL that train
// sets in its own process, where the user has not: NCCL reads each of them once.
#pragma once

#include <climits>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/comm/shard_tree.hpp"
#include "trainer/cuda/open_library.hpp"

namespace ddprun::trainer::nccl {

using Comm = struct CommOpaque*;
/// A cudaStream_t.
using NativeStream = void*;

struct UniqueId {
  char bytes[128];
};

enum class Status : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

enum class DataType : int { bytes = 0, fp32 = 7 };
enum class Operation : int { sum = 0 };

/// As 2.18 has it; newer releases read `size` and take what is missing as unset.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = INT_MIN;
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;  ///< 2.26 reads it whatever `version` is; else padding
};

/// Its functions.
struct Functions {
  Status (*get_version)(int* version);
  Status (*get_unique_id)(UniqueId* id);
  Status (*comm_init_rank_config)(Comm* comm, int ranks, UniqueId id, int rank, Config* config);
  Status (*comm_get_async_error)(Comm comm, Status* error);
  Status (*comm_destroy)(Comm comm);
  Status (*comm_abort)(Comm comm);
  const char* (*get_error_string)(Status status);
  const char* (*get_last_error)(Comm comm);
  Status (*all_reduce)(const void* from, void* to, std::size_t count, DataType type,
                       Operation operation, Comm comm, NativeStream stream);
  Status (*broadcast)(const void* from, void* to, std::size_t count, DataType type, int root,
                      Comm comm, NativeStream stream);
  Status (*all_gather)(const void* from, void* to, std::size_t count, DataType type, Comm comm,
                       NativeStream stream);
  Status (*send)(const void* from, std::size_t count, DataType type, int peer, Comm comm,
                 NativeStream stream);
  Status (*recv)(void* to, std::size_t count, DataType type, int peer, Comm comm,
                 NativeStream stream);
  Status (*group_start)();
  Status (*group_end)();
};

inline constexpr int kOldestVersion = 21800;

/// "2.28.9" of 22809. Before 2.9 the numbers had another form; those are too old in any case.
std::string version_text(int version);

/// The library; it stays open as long as this.
class Library {
 public:
  struct Opened {
    std::shared_ptr<const Library> library;  ///< null: see `why`
    /// In words for people: it cannot be opened, lacks a function, or is too old.
    std::string why;
  };
  /// The machine's library. `cuda`: the version that the plugin was built for.
  static Opened find(const cuda::LibraryPlaces& places, int cuda);
  /// `path`: what dlopen takes.
  static Opened open(const std::string& path);

  [[nodiscard]] const Functions& call() const { return functions_; }
  [[nodiscard]] int version() const { return static_cast<int>(found_.version); }
  /// The file that was opened.
  [[nodiscard]] const std::string& path() const { return found_.path; }

 private:
  Library() = default;
  [[nodiscard]] cuda::LibraryNeed need();
  static Opened opened(std::shared_ptr<Library> library, cuda::FoundLibrary found);

  cuda::FoundLibrary found_;
  Functions functions_{};
};

struct NcclWishes {
  int rank = 0;
  SumOrder order = SumOrder::chain;
  bool shares_gpus = false;    ///< several ranks may have one GPU
  bool deterministic = false;  ///< the same sums give the same bits in every run
};

/// Names and values. `lookup`: the value of a variable, or null. Pure.
///
/// NCCL_HOSTID: ranks that share a GPU look like hosts of one GPU each, which NCCL accepts.
/// NCCL_NVLS_ENABLE=0: a switch that adds by itself (NVLink SHARP) may do so in another order at
/// each call. Rings and trees add in the order of the machine's connections. Sums in the shard
/// tree's order are not NCCL's.
std::vector<std::pair<std::string, std::string>> nccl_variables(
    const NcclWishes& wishes, const std::function<const char*(const char*)>& lookup);

/// Sets them. Before the first communicator, and while no other thread reads the environment.
void set_nccl_variables(const NcclWishes& wishes);

}  // namespace ddprun::trainer::nccl
