#include "launcher/ssh/node_guard.hpp"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "base/bounded_write.hpp"
#include "base/exit_codes.hpp"
#include "base/unique_handle.hpp"
#include "launcher/ssh/node_messages.hpp"
#include "launcher/ssh/ssh_command.hpp"
#include "machine/processes/kill_children.hpp"
#include "warden/warden_signals.hpp"

namespace ddprun::launcher {

using namespace std::chrono_literals;

namespace {

constexpr auto kSayLimit = 500ms;

void say(const std::string& line) {
  write_within(STDERR_FILENO, "ddprun: " + line + "\n", kSayLimit);
}

}  // namespace

NodeGuard::NodeGuard(pid_t node, NodeInput input, std::string socket, UniqueFd signals,
                     machine::StopSettings stop)
    : node_(node, std::move(signals), stop.grace_period + stop.kill_timeout + kNodeEndMargin),
      input_(std::move(input)),
      socket_(std::move(socket)),
      stop_(std::move(stop)) {}

void NodeGuard::run() {
  // Here, so that it delays no start.
  remove_stray_sockets(std::string(kSocketFolder));
  take_lines();
  while (true) {
    wait();
    look_at_node();
    look_at_deadline();
  }
}

void NodeGuard::wait() {
  std::array<pollfd, 1> ready{{{input_has_ended_ ? -1 : STDIN_FILENO, POLLIN, 0}}};
  if (!node_.wait(ready)) end_input();
  for (const int signal : node_.take_signals()) pass_on(signal);
  if (ready[0].revents != 0) take_input();
}

void NodeGuard::take_input() {
  if (!input_.read_more(std::nullopt)) return end_input();
  take_lines();
  if (input_.size() > kInputLineBytesMax) end_input();
}

void NodeGuard::take_lines() {
  while (const auto line = input_.take_line()) {
    if (const auto signal = signal_in(*line)) pass_on(*signal);
  }
}

/// A second signal skips the grace period.
void NodeGuard::pass_on(int signal) {
  kill(node_.pid(), signal);
  if (!warden::ends_job(stop_, signal)) return;
  // It could not act on the signal; it is to end now, whatever stopped it.
  if (node_.is_stopped()) kill(node_.pid(), SIGCONT);
  const auto now = Clock::now();
  node_.deadline.ending() ? node_.deadline.ends_within(stop_.kill_timeout + kNodeEndMargin, now)
                          : node_.deadline.stop_requested(now);
}

/// The launcher or its ssh is gone, so nothing else could end the node.
void NodeGuard::end_input() {
  if (std::exchange(input_has_ended_, true)) return;
  const bool is_ending = node_.deadline.ending();
  pass_on(SIGTERM);
  // A signal set that leaves SIGTERM out ends a node at once.
  if (!is_ending && !node_.deadline.ending()) node_.deadline.stop_requested(Clock::now());
}

void NodeGuard::look_at_node() {
  while (node_.look_at_state()) {
    if (node_.is_stopped() && node_.deadline.ending()) kill(node_.pid(), SIGCONT);
  }
  if (const auto exit = node_.take_exit())
    finish(exit->by_signal ? kExitSignalBase + exit->value : exit->value);
}

void NodeGuard::look_at_deadline() {
  const std::string name = fmt::format("ddprun there (pid {})", node_.pid());
  const auto now = Clock::now();
  switch (node_.deadline.due(now)) {
    case warden::AgentDeadline::Due::nothing:
      return;
    case warden::AgentDeadline::Due::say_stopped:
      return say(fmt::format(
          "{} is stopped (SIGSTOP); run `kill -CONT {}` there to resume it, or it is killed in {} "
          "s",
          name, node_.pid(),
          std::chrono::ceil<std::chrono::seconds>(node_.deadline.left(now)).count()));
    case warden::AgentDeadline::Due::end_job:
      kill(node_.pid(), SIGKILL);
      say(name +
          (node_.deadline.ending() ? " did not end in time" : " was stopped and not continued") +
          ": killing everything");
      finish(kExitInternal);
  }
}

/// If the node's warden was killed, its agent still ends the workers. The kernel has handed them
/// to this process, and no other process waits for their end.
void NodeGuard::finish(int code) {
  const auto left = machine::kill_all_children(Clock::now() + stop_.kill_timeout);
  unlink(socket_.c_str());
  _exit(left.empty() ? code : kExitLeftovers);
}

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

namespace {

bool is_old_and_ours(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) &&
         status.st_uid == geteuid() && status.st_mtime + kStrayAge.count() <= std::time(nullptr);
}

/// Without waiting: a listener with many others waiting is one, too.
bool nobody_listens(const std::string& path) {
  sockaddr_un addr{};
  addr.sun_family = AF_UNIX;
  if (path.size() >= sizeof addr.sun_path) return false;
  std::memcpy(addr.sun_path, path.c_str(), path.size());
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return fd && connect(fd.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof addr) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace

void remove_stray_sockets(const std::string& folder) {
  DIR* const directory = opendir(folder.c_str());
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory)) {
    if (!std::string_view(entry->d_name).starts_with(kSocketPrefix)) continue;
    const std::string path = folder + "/" + entry->d_name;
    if (is_old_and_ours(path) && nobody_listens(path)) unlink(path.c_str());
  }
  closedir(directory);
}

}  // namespace ddprun::launcher
