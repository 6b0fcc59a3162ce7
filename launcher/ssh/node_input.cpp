#include "launcher/ssh/node_input.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace ddprun::launcher {

using namespace std::chrono_literals;

bool NodeInput::read_more(std::optional<std::chrono::steady_clock::time_point> deadline) {
  while (deadline) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
    pollfd ready{STDIN_FILENO, POLLIN, 0};
    const int count = left > 0ms ? poll(&ready, 1, static_cast<int>(left.count())) : 0;
    if (count > 0) break;
    if (count == 0 || errno != EINTR) return false;
  }
  std::array<char, 64 * 1024> buffer;
  ssize_t count = 0;
  do {
    count = read(STDIN_FILENO, buffer.data(), buffer.size());
  } while (count < 0 && errno == EINTR);
  if (count <= 0) return false;
  bytes_.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

std::optional<std::string> NodeInput::take_line() {
  const auto newline = bytes_.find('\n');
  if (newline == std::string::npos) return std::nullopt;
  std::string line = bytes_.substr(0, newline);
  bytes_.erase(0, newline + 1);
  return line;
}

std::string NodeInput::take(std::size_t bytes) {
  std::string taken = bytes_.substr(0, bytes);
  bytes_.erase(0, bytes);
  return taken;
}

}  // namespace ddprun::launcher
