#include "base/process_stat.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "base/small_file.hpp"

namespace ddprun {

std::optional<ProcessStat> parse_process_stat(const std::string& line) {
  ProcessStat stat;
  const std::size_t name = line.find('(');
  const std::size_t after_name = line.rfind(')');  // the name itself may contain ')'
  if (name == std::string::npos || after_name == std::string::npos || after_name < name)
    return std::nullopt;
  const int read =
      std::sscanf(line.c_str() + after_name + 1,
                  " %c %d %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                  "%d %*s %" SCNu64,
                  &stat.state, &stat.parent, &stat.flags, &stat.threads, &stat.start_time);
  if (read != 5) return std::nullopt;
  stat.pid = std::atoi(line.c_str());
  stat.name = line.substr(name + 1, after_name - name - 1);
  return stat;
}

std::optional<ProcessStat> read_process_stat(pid_t pid) {
  // That of its first thread. qemu-user makes up /proc/self/stat, and its start time is another one
  // than others see.
  const std::string number = std::to_string(pid);
  const auto line = read_small_file("/proc/" + number + "/task/" + number + "/stat");
  return line ? parse_process_stat(*line) : std::nullopt;
}

}  // namespace ddprun
