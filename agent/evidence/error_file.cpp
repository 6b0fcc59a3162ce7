#include "agent/evidence/error_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "agent/evidence/file_clock.hpp"
#include "base/open_file.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::agent {
namespace {

constexpr std::size_t kCallstackLinesMax = 200;

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// The last ones, for what went wrong stands there.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  if (text.empty()) return lines;
  if (text.ends_with('\n')) text.remove_suffix(1);
  while (lines.size() < kCallstackLinesMax) {
    const auto before = text.rfind('\n');
    const bool first = before == std::string_view::npos;
    lines.emplace_back(first ? text : text.substr(before + 1));
    if (first) break;
    text = text.substr(0, before);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

}  // namespace

std::optional<ErrorFile> parse_error_file(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto message = json.find("message");
  if (message == json.end()) return std::nullopt;
  ErrorFile error;
  if (message->is_string()) {
    error.message = message->get<std::string>();
  } else if (message->is_object()) {
    error.message = text_of(*message, "message");
    const auto extra = message->find("extraInfo");
    if (extra != message->end() && extra->is_object())
      error.callstack = lines_of(text_of(*extra, "py_callstack"));
  } else {
    return std::nullopt;
  }
  return error;
}

std::optional<FoundErrorFile> read_error_file(const std::string& path) {
  if (path.empty()) return std::nullopt;
  FoundErrorFile found;
  const Result<UniqueFd> opened = open_named_file(path, O_RDONLY);
  if (opened.has_error() && opened.error() == FileErrc::not_regular) {
    found.problem = "it is no regular file";
    return found;
  }
  struct stat status {};
  if (!opened || fstat(opened->get(), &status) != 0) return std::nullopt;
  const UniqueFd& fd = *opened;
  found.written = last_written(fd.get(), status);
  if (static_cast<std::size_t>(status.st_size) > kErrorFileBytesMax) {
    found.problem = "it is larger than 1 MiB";
    return found;
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  const ssize_t count = read(fd.get(), text.data(), text.size());
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  auto parsed = parse_error_file(text);
  if (parsed) {
    found.error = std::move(*parsed);
    found.text = std::move(text);
  } else {
    found.problem = "it holds no error as torchrun's workers write it";
  }
  return found;
}

}  // namespace ddprun::agent
