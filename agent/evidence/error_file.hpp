// The error file that a worker may leave: what torch's `record` decorator writes, and its simpler
// form. Source of the formats: torchrun's behaviour.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

/// A larger file is not looked at.
inline constexpr std::size_t kErrorFileBytesMax = 1024 * 1024;

struct ErrorFile {
  std::string message;                 ///< `ValueError: bad lr`
  std::vector<std::string> callstack;  ///< the last lines of the traceback, where there is one
};

/// None: it is no error file (not JSON, other fields). Never throws. Pure.
std::optional<ErrorFile> parse_error_file(std::string_view text);

/// An error file with the time at which it was last written, by this machine's wall clock.
struct FoundErrorFile {
  ErrorFile error;
  std::string text;  ///< all that it holds
  std::chrono::system_clock::time_point written;
  std::string problem;  ///< not empty: why it can't be read as one; `error` is empty then
};

/// None: there is no such file, or the path is empty.
std::optional<FoundErrorFile> read_error_file(const std::string& path);

}  // namespace ddprun::agent
