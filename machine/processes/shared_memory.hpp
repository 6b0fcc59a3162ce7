// Files of shared memory that processes leave in /dev/shm when they are killed. They take memory
// until somebody removes them.
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace ddprun::machine {

inline constexpr const char* kSharedMemoryFolder = "/dev/shm";

/// The process that has made a file with such a name: `torch_PID_...` (PyTorch's file_system
/// strategy), `pym-PID-...` (Python's multiprocessing), `sem.loky-PID-...` (joblib). None: the name
/// does not tell. Pure.
std::optional<pid_t> maker_of_shared_memory(std::string_view name);

/// Processes that have ended, and when the first of them can have begun.
struct EndedProcesses {
  std::set<pid_t> pids;
  std::chrono::system_clock::time_point since;
};

/// Removes what those have left in `folder`: files of this user with their number in the name, made
/// since then, that no process of the machine has open or mapped, in whatever container. In steps,
/// because the kernel may need seconds to free the memory of many.
class SharedMemoryRemoval {
 public:
  explicit SharedMemoryRemoval(EndedProcesses ended,
                               const std::string& folder = kSharedMemoryFolder);

  /// Removes one file. False: there was no other.
  bool remove_next();
  [[nodiscard]] int removed() const { return removed_; }

 private:
  EndedProcesses ended_;
  std::unique_ptr<DIR, int (*)(DIR*)> directory_;  // null: nothing is to be done
  int removed_ = 0;
};

/// All of it in one call. Returns how many were removed.
int remove_shared_memory_of(const EndedProcesses& ended,
                            const std::string& folder = kSharedMemoryFolder);

}  // namespace ddprun::machine
