#include "agent/progress/thread_states.hpp"

#include <sys/syscall.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "base/small_file.hpp"

namespace ddprun::agent {
namespace {

/// The first line, without what a terminal would act on: a thread chooses its own name.
std::string first_line(const std::string& path) {
  const auto text = read_small_file(path);
  if (!text) return {};
  std::string line = text->substr(0, text->find('\n'));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c < ' ' || c == 127; }, '?');
  return line;
}

/// What stands behind `NAME:` and a tab; empty: nothing does.
std::string field_in(const std::string& status, std::string_view name) {
  const std::string beginning = fmt::format("\n{}:\t", name);
  const std::size_t at = status.find(beginning);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + beginning.size();
  return status.substr(begin, status.find('\n', begin) - begin);
}

std::string thread_line(int thread, const std::string& folder) {
  const std::string status = read_small_file(folder + "/status").value_or("");
  std::string line = fmt::format("thread {} ({}): {}", thread, first_line(folder + "/comm"),
                                 field_in(status, "State"));
  const std::string channel = first_line(folder + "/wchan");
  if (!channel.empty() && channel != "0") line += ", waits in " + channel;
  const std::string call = first_line(folder + "/syscall");
  if (!call.empty() && call != "running" && !call.starts_with("-1"))
    line += ", system call " + call.substr(0, call.find(' '));
  return line;
}

std::vector<int> threads_in(const std::string& tasks) {
  std::vector<int> threads;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(tasks, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    int thread = 0;
    const char* last = name.data() + name.size();
    if (std::from_chars(name.data(), last, thread).ptr == last) threads.push_back(thread);
  }
  std::sort(threads.begin(), threads.end());
  return threads;
}

/// The number of a system call and its first argument, of a text such as `0 0x0 0x7faf12df1b03`.
bool is_wait_for_stdin(const std::string& call) {
  std::istringstream words(call);
  long number = -1;
  std::string first;
  if (!(words >> number >> first)) return false;
  if (number == SYS_read) return first == "0x0";
#ifdef SYS_select
  if (number == SYS_select) return first == "0x1";
#endif
  return number == SYS_pselect6 && first == "0x1";  // descriptors below 1
}

}  // namespace

bool waits_for_stdin(int pid, const std::string& proc) {
  const std::string tasks = fmt::format("{}/{}/task", proc, pid);
  const std::vector<int> threads = threads_in(tasks);
  return std::any_of(threads.begin(), threads.end(), [&tasks](int thread) {
    return is_wait_for_stdin(first_line(fmt::format("{}/{}/syscall", tasks, thread)));
  });
}

std::vector<std::string> thread_states(int pid, const std::string& proc) {
  const std::string tasks = fmt::format("{}/{}/task", proc, pid);
  std::vector<int> threads = threads_in(tasks);
  const std::size_t more =
      threads.size() > kThreadsShownMax ? threads.size() - kThreadsShownMax : 0;
  threads.resize(threads.size() - more);
  std::vector<std::string> lines;
  for (const int thread : threads)
    lines.push_back(thread_line(thread, fmt::format("{}/{}", tasks, thread)));
  if (more > 0) lines.push_back(fmt::format("... and {} more threads", more));
  return lines;
}

int tracer_of(int pid, const std::string& proc) {
  const auto status = read_small_file(fmt::format("{}/{}/status", proc, pid));
  const std::string text = status ? field_in(*status, "TracerPid") : "";
  int tracer = 0;
  std::from_chars(text.data(), text.data() + text.size(), tracer);
  return tracer;
}

std::optional<std::uint64_t> kernel_wait_of(int pid, const std::string& proc) {
  const auto status = read_small_file(fmt::format("{}/{}/status", proc, pid));
  if (!status || !field_in(*status, "State").starts_with('D')) return std::nullopt;
  // Two waits of a worker that reads much from a disk are no long one.
  const std::string waits = field_in(*status, "voluntary_ctxt_switches");
  std::uint64_t number = 0;
  std::from_chars(waits.data(), waits.data() + waits.size(), number);
  return number;
}

}  // namespace ddprun::agent
