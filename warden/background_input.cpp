#include "warden/background_input.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/open_file.hpp"

namespace ddprun::warden {
namespace {

constexpr std::size_t kLineBytesMax = 4096;  // of a terminal
constexpr int kLinesAtOnce = 16;             // the warden has signals and deadlines to look at

/// Readable as long as something new has been typed since the last epoll_wait.
UniqueFd watch_typing(int terminal) {
  UniqueFd edges(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  if (!edges || epoll_ctl(edges.get(), EPOLL_CTL_ADD, terminal, &event) != 0) return {};
  return edges;
}

}  // namespace

bool is_in_background() {
  const pid_t foreground = tcgetpgrp(STDIN_FILENO);  // fails unless it is our session's terminal
  return foreground >= 0 && foreground != getpgrp();
}

std::optional<BackgroundInput> BackgroundInput::replace_stdin() {
  if (!is_in_background()) return std::nullopt;
  UniqueFd terminal(open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  UniqueFd edges = terminal ? watch_typing(terminal.get()) : UniqueFd();
  auto pipe = make_pipe();
  if (!edges || !pipe) {
    // Another user's terminal, as under su: better no input than the shell's.
    const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    dup2(null.get(), STDIN_FILENO);
    return std::nullopt;
  }
  fcntl(pipe->write.get(), F_SETFL, O_NONBLOCK);
  dup2(pipe->read.get(), STDIN_FILENO);
  return BackgroundInput(std::move(terminal), std::move(edges), std::move(pipe->write));
}

BackgroundInput::BackgroundInput(UniqueFd terminal, UniqueFd edges, UniqueFd pipe)
    : terminal_(std::move(terminal)), edges_(std::move(edges)), pipe_(std::move(pipe)) {}

pollfd BackgroundInput::ready() const {
  const bool has_more = !waiting_.empty() || may_have_more_;
  return has_more ? pollfd{pipe_.get(), POLLOUT, 0} : pollfd{edges_.get(), POLLIN, 0};
}

bool BackgroundInput::pass_on() {
  epoll_event edge{};
  epoll_wait(edges_.get(), &edge, 1, 0);  // before the read: what comes after it is a new edge
  may_have_more_ = false;
  for (int lines = 0;; ++lines) {
    while (!waiting_.empty()) {
      const ssize_t written = write(pipe_.get(), waiting_.data(), waiting_.size());
      if (written < 0) return errno == EAGAIN || errno == EINTR;
      waiting_.erase(0, static_cast<std::size_t>(written));
    }
    // What stays unread is no new edge.
    if (lines == kLinesAtOnce) return may_have_more_ = true;
    std::array<char, kLineBytesMax> line;
    // In the background the kernel refuses (EIO), because SIGTTIN is blocked, and takes nothing.
    const ssize_t bytes = read(terminal_.get(), line.data(), line.size());
    if (bytes <= 0) return bytes < 0;
    waiting_.assign(line.data(), static_cast<std::size_t>(bytes));
  }
}

}  // namespace ddprun::warden
