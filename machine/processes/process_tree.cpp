#include "machine/processes/process_tree.hpp"

#include <dirent.h>
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
#include <memory>
#include <optional>

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

struct ProcessList {
  std::vector<ProcessEntry> entries;  // in /proc's numbers
  std::optional<pid_t> self;          // likewise
};

ProcessList list_processes() {
  ProcessList list;
  list.self = self_in_proc();
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc"), closedir);
  if (!list.self || !directory) return list;
  while (const dirent* entry = readdir(directory.get())) {
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr != end) continue;
    const auto stat = read_process_stat(pid);
    // A process without its first thread looks like a zombie while its other threads run.
    if (!stat || (stat->state == 'Z' && stat->threads < 2) || stat->state == 'X') continue;
    list.entries.push_back({pid, stat->parent, stat->state, stat->name, pid});
  }
  return list;
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
  std::vector<ProcessEntry> found;
  std::vector<pid_t> parents{root};
  for (std::size_t next = 0; next < parents.size(); ++next) {
    for (const ProcessEntry& entry : all) {
      // A list that was not taken at one instant may hold circles.
      const bool known = std::find(parents.begin(), parents.end(), entry.pid) != parents.end();
      if (entry.parent != parents[next] || known) continue;
      found.push_back(entry);
      parents.push_back(entry.pid);
    }
  }
  return found;
}

std::vector<ProcessEntry> live_children() {
  ProcessList list = list_processes();
  if (!list.self) return {};
  std::vector<ProcessEntry> children;
  for (ProcessEntry& entry : list.entries) {
    if (entry.parent == *list.self) children.push_back(std::move(entry));
  }
  return in_our_numbers(std::move(children), *list.self);
}

std::vector<ProcessEntry> live_descendants() {
  const ProcessList list = list_processes();
  return list.self ? in_our_numbers(descendants_of(list.entries, *list.self), *list.self)
                   : std::vector<ProcessEntry>();
}

bool signal_process(const ProcessEntry& entry, int signal) {
  // A child of ours keeps its number until we reap it.
  if (entry.parent == getpid()) return kill(entry.pid, signal) == 0;
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, entry.pid, 0)));
  const bool no_pidfds = !pidfd && errno == ENOSYS;
  if (!pidfd && !no_pidfds) return false;
  // The process that the pidfd names is the one we meant if it still has that parent.
  const auto now = read_process_stat(entry.in_proc);
  const bool comparable = entry.in_proc == entry.pid;
  if (!now || now->name != entry.name || (comparable && now->parent != entry.parent)) return false;
  if (no_pidfds) return kill(entry.pid, signal) == 0;
  return syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0;
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
  if (entry.pid < 0) return "a process that /proc does not show";
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

}  // namespace ddprun::machine
