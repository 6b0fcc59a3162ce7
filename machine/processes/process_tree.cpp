#include "machine/processes/process_tree.hpp"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/process_stat.hpp"
#include "base/small_file.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::machine {

namespace {

/// Empty when the process is gone.
std::string read_proc(pid_t pid, const char* name) {
  return read_small_file("/proc/" + std::to_string(pid) + "/" + name).value_or("");
}

/// The process's pid in each pid namespace that it is in, from /proc's to its own.
std::vector<pid_t> namespace_pids(pid_t in_proc) {
  const std::string status = read_proc(in_proc, "status");
  const std::size_t line = status.find("NSpid:");
  std::vector<pid_t> pids;
  if (line == std::string::npos) return pids;
  const char* text = status.c_str() + line + std::strlen("NSpid:");
  char* end = nullptr;
  while (true) {
    const long pid = std::strtol(text, &end, 10);
    if (end == text || *text == '\n') return pids;
    pids.push_back(static_cast<pid_t>(pid));
    text = end;
    while (*text == ' ' || *text == '\t') ++text;
  }
}

/// Our pid in the numbers of /proc; none without a /proc.
std::optional<pid_t> self_in_proc() {
  char link[32];
  const ssize_t length = readlink("/proc/self", link, sizeof link - 1);
  if (length <= 0) return std::nullopt;
  link[length] = '\0';
  return std::atoi(link);
}

/// From /proc's numbers to ours, which differ after `unshare --pid` without a new /proc. All of
/// `entries` are below us, so they are in our namespace or in one inside it.
std::vector<ProcessEntry> in_our_numbers(std::vector<ProcessEntry> entries, pid_t self_in_proc) {
  if (self_in_proc == getpid()) return entries;
  const std::size_t depth = namespace_pids(self_in_proc).size();
  std::map<pid_t, pid_t> ours{{self_in_proc, getpid()}};
  std::vector<ProcessEntry> translated;
  for (ProcessEntry& entry : entries) {
    const std::vector<pid_t> pids = namespace_pids(entry.in_proc);
    if (depth == 0 || pids.size() < depth) continue;  // it is gone
    entry.pid = ours[entry.in_proc] = pids[depth - 1];
    entry.parent = ours[entry.parent];  // parents come first
    translated.push_back(std::move(entry));
  }
  return translated;
}

const char* meaning_of(char state) {
  switch (state) {
    case 'D':
      return "waits in the kernel";
    case 'T':
    case 't':
      return "stopped";
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    default:
      return "unknown";
  }
}

}  // namespace

std::vector<ProcessEntry> descendants_of(const std::vector<ProcessEntry>& all, pid_t root) {
  std::unordered_map<pid_t, std::vector<std::size_t>> children;
  for (std::size_t i = 0; i < all.size(); ++i) children[all[i].parent].push_back(i);
  std::vector<ProcessEntry> found;
  // A list that was not taken at one instant may hold circles.
  std::unordered_set<pid_t> known{root};
  pid_t parent = root;
  for (std::size_t next = 0;; ++next) {
    if (const auto below = children.find(parent); below != children.end()) {
      for (const std::size_t child : below->second) {
        if (known.insert(all[child].pid).second) found.push_back(all[child]);
      }
    }
    if (next == found.size()) return found;
    parent = found[next].pid;
  }
}

ProcessWalk::ProcessWalk() : self_(self_in_proc()), directory_(nullptr, closedir) {
  if (self_) directory_.reset(opendir("/proc"));
}

bool ProcessWalk::go_on(Clock::time_point until) {
  if (!directory_) return true;
  do {
    const dirent* entry = readdir(directory_.get());
    if (entry == nullptr) return true;
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr != end) continue;
    auto stat = read_process_stat(pid);
    // A process without its first thread looks like a zombie while its other threads run.
    if (!stat || (stat->state == 'Z' && stat->threads < 2) || stat->state == 'X') continue;
    entries_.push_back(
        {pid, stat->parent, stat->state, std::move(stat->name), pid, stat->start_time});
  } while (Clock::now() < until);
  return false;
}

std::vector<ProcessEntry> ProcessWalk::take_descendants() {
  if (!directory_) return {};
  return in_our_numbers(descendants_of(std::exchange(entries_, {}), *self_), *self_);
}

std::vector<ProcessEntry> live_descendants() {
  ProcessWalk walk;
  walk.go_on(ProcessWalk::Clock::time_point::max());
  return walk.take_descendants();
}

bool signal_process(const ProcessEntry& entry, int signal) {
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, entry.pid, 0)));
  if (!pidfd && errno == ESRCH) return false;
  // Its parent may be another by now, and its program, too.
  const auto now = read_process_stat(entry.in_proc);
  if (!now || now->start_time != entry.start_time) return false;
  if (pidfd && syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0) return true;
  // No pidfds: an old kernel, a container that forbids them, too many open files.
  return (!pidfd || errno != ESRCH) && kill(entry.pid, signal) == 0;
}

ChildCondition condition_of(pid_t pid) {
  // The kernel's PF_EXITING, PF_POSTCOREDUMP, PF_DUMPCORE and PF_SIGNALED.
  constexpr unsigned kDying = 0x4 | 0x8 | 0x200 | 0x400;
  const auto stat = read_process_stat(pid);
  if (!stat) return {};
  return {(stat->flags & kDying) != 0, stat->state == 'T'};
}

std::string name_of(const ProcessEntry& entry) {
  return "pid " + std::to_string(entry.pid) + " (" + entry.name + ")";
}

std::string describe_stuck(const ProcessEntry& entry) {
  if (entry.pid < 0)
    return self_in_proc()
               ? "a process that /proc does not show"
               : "a process that cannot be seen, because there is no /proc; mount it, or "
                 "use --contain=pidns";
  const std::string channel = read_proc(entry.in_proc, "wchan");
  std::string text = name_of(entry) + ", state " + entry.state + " (" + meaning_of(entry.state);
  if (!channel.empty() && channel != "0") text += ", in " + channel;
  text += ")";
  struct stat status {};
  const std::string folder = "/proc/" + std::to_string(entry.in_proc);
  if (stat(folder.c_str(), &status) == 0 && status.st_uid != geteuid() && geteuid() != 0)
    text += ", of user " + std::to_string(status.st_uid);
  return text;
}

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
