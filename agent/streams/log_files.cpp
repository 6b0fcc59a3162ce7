#include "agent/streams/log_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>

#include "base/open_file.hpp"

namespace ddprun::agent {
namespace {

constexpr off_t kTailBytes = 64 * 1024;

bool make_folder(const std::string& path) {
  return mkdir(path.c_str(), 0755) == 0 || errno == EEXIST;
}

}  // namespace

std::string attempt_folder(const std::string& folder, int restart_count) {
  return fmt::format("{}/attempt_{}", folder, restart_count);
}

std::string worker_folder(const std::string& folder, int restart_count, int local_rank) {
  return fmt::format("{}/attempt_{}/{}", folder, restart_count, local_rank);
}

std::string stream_file(const std::string& folder, int restart_count, int local_rank,
                        bool standard_error) {
  return worker_folder(folder, restart_count, local_rank) +
         (standard_error ? "/stderr.log" : "/stdout.log");
}

Result<void> make_worker_folder(const std::string& folder, int restart_count, int local_rank) {
  if (!make_folder(attempt_folder(folder, restart_count)) ||
      !make_folder(worker_folder(folder, restart_count, local_rank)))
    return last_system_error();
  return {};
}

Result<UniqueFd> open_log_file(const std::string& path) {
  return open_own_file(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
}

std::vector<std::string> last_lines_of(const std::string& path, std::size_t lines_max,
                                       std::size_t line_bytes_max) {
  const Result<UniqueFd> file = open_own_file(path, O_RDONLY);
  struct stat status {};
  if (!file || fstat(file->get(), &status) != 0) return {};
  const off_t begin = std::max<off_t>(0, status.st_size - kTailBytes);
  std::string tail(static_cast<std::size_t>(status.st_size - begin), '\0');
  const ssize_t count = pread(file->get(), tail.data(), tail.size(), begin);
  tail.resize(count > 0 ? static_cast<std::size_t>(count) : 0);

  std::vector<std::string> lines;
  std::string_view rest = tail;
  while (!rest.empty() && lines.size() < lines_max) {
    if (rest.ends_with('\n')) rest.remove_suffix(1);
    const auto before = rest.rfind('\n');
    const bool first = before == std::string_view::npos;
    if (first && begin > 0 && !lines.empty()) break;  // its beginning is further up
    std::string_view line = first ? rest : rest.substr(before + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line.substr(0, line_bytes_max));
    rest = first ? std::string_view() : rest.substr(0, before + 1);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

}  // namespace ddprun::agent
