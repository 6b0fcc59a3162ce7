#include "rendezvous/service/running_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/hash_bytes.hpp"
#include "base/open_file.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::rdzv {

using namespace std::chrono_literals;

namespace {

constexpr auto kWrittenEvery = 1min;

struct Content {
  std::int64_t lease_ns = 0;
  std::int64_t written_at_ns = 0;
};

std::optional<Content> parse(std::string_view text) {
  Content content;
  const char* const end = text.data() + text.size();
  const auto lease = std::from_chars(text.data(), end, content.lease_ns);
  if (lease.ec != std::errc() || lease.ptr == end || *lease.ptr != ' ') return std::nullopt;
  const auto at = std::from_chars(lease.ptr + 1, end, content.written_at_ns);
  if (at.ec != std::errc() || at.ptr == end || *at.ptr != '\n') return std::nullopt;
  return content;
}

/// None: it cannot be read, or is another user's.
std::optional<Content> content_of(const std::string& path) {
  const Result<UniqueFd> fd = open_own_file(path, O_RDONLY);
  struct stat status {};
  if (!fd || fstat(fd->get(), &status) != 0 || status.st_uid != geteuid()) return std::nullopt;
  std::array<char, 64> text;
  const ssize_t count = read(fd->get(), text.data(), text.size());
  if (count <= 0) return std::nullopt;
  return parse({text.data(), static_cast<std::size_t>(count)});
}

bool is_over(const Content& content, Clock::time_point now) {
  return now >
         Clock::time_point(std::chrono::nanoseconds(content.written_at_ns)) + RunningFile::kKept;
}

std::string own_prefix() { return fmt::format("ddprun-rendezvous-{}-", geteuid()); }

}  // namespace

RunningFile::RunningFile(const std::string& addr, std::uint16_t port, const std::string& run_id,
                         const std::string& folder) {
  const std::string key = addr + ' ' + run_id;
  path_ = fmt::format("{}/{}{}-{:016x}", folder, own_prefix(), port,
                      hash_bytes(std::as_bytes(std::span(key)), key.size()));
}

std::optional<std::chrono::nanoseconds> RunningFile::past_lease(Clock::time_point now) const {
  const auto content = content_of(path_);
  if (!content || is_over(*content, now)) return std::nullopt;
  return std::clamp<std::chrono::nanoseconds>(std::chrono::nanoseconds(content->lease_ns), 0ns,
                                              kKept);
}

void RunningFile::remove_old(const std::string& folder, Clock::time_point now) {
  std::error_code failed;
  std::filesystem::directory_iterator entry(folder, failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    const std::string path = entry->path().string();
    if (!entry->path().filename().string().starts_with(own_prefix())) continue;
    const auto content = content_of(path);
    if (content && is_over(*content, now)) unlink(path.c_str());
  }
}

void RunningFile::follow(std::optional<std::chrono::nanoseconds> lease, Clock::time_point now) {
  if (lease) {
    if (lease_ != lease || now >= written_at_ + kWrittenEvery) write(*lease, now);
  } else if (lease_) {
    unlink(path_.c_str());
  }
  lease_ = lease;
}

void RunningFile::write(std::chrono::nanoseconds lease, Clock::time_point now) {
  written_at_ = now;
  const Result<UniqueFd> fd = open_own_file(path_, O_WRONLY | O_CREAT, S_IRUSR | S_IWUSR);
  if (!fd) return;
  // One write over the old text, so that no reader finds half of it.
  const std::string text =
      fmt::format("{:020} {:020}\n", lease.count(), now.time_since_epoch().count());
  [[maybe_unused]] const auto written = pwrite(fd->get(), text.data(), text.size(), 0);
}

}  // namespace ddprun::rdzv
