#include "machine/processes/ancestor.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/process_stat.hpp"

namespace ddprun::machine {
namespace {

/// A list of parents that is read while processes end could be a circle.
constexpr int kGenerationsMax = 64;

bool begins_with_one_of(const std::string& name, const std::vector<std::string>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const std::string& beginning) { return name.rfind(beginning, 0) == 0; });
}

}  // namespace

std::optional<Ancestor> find_ancestor(const std::vector<std::string>& names) {
  if (names.empty()) return std::nullopt;
  pid_t pid = getppid();
  for (int generation = 0; pid > 0 && generation < kGenerationsMax; ++generation) {
    const auto stat = read_process_stat(pid);
    if (!stat) return std::nullopt;
    if (begins_with_one_of(stat->name, names)) {
      UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
      const auto now = read_process_stat(pid);
      // Else it has ended, and the number may be another process's.
      if (!pidfd || !now || now->start_time != stat->start_time) return std::nullopt;
      return Ancestor{pid, stat->name, std::move(pidfd)};
    }
    pid = stat->parent;
  }
  return std::nullopt;
}

}  // namespace ddprun::machine
