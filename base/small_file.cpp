#include "base/small_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/unique_handle.hpp"

namespace ddprun {

std::optional<std::string> read_small_file(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer;
  while (text.size() < kSmallFileBytesMax) {
    const ssize_t count = read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

namespace {

constexpr std::string_view kBlanks = " \t";

}  // namespace

std::optional<std::uint64_t> counter_in(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    if (line.size() > name.size() && line.starts_with(name) &&
        kBlanks.find(line[name.size()]) != std::string_view::npos) {
      auto digits = line.substr(name.size());
      digits.remove_prefix(std::min(digits.find_first_not_of(kBlanks), digits.size()));
      std::uint64_t value = 0;
      if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc{})
        return value;
      return std::nullopt;
    }
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return std::nullopt;
}

}  // namespace ddprun
