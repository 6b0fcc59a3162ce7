#include "launcher/ssh/node_guard.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "base/bounded_write.hpp"
#include "base/exit_codes.hpp"
#include "launcher/ssh/node_messages.hpp"
#include "launcher/ssh/ssh_command.hpp"
#include "launcher/ssh/stray_sockets.hpp"
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
    : node_(node),
      input_(std::move(input)),
      socket_(std::move(socket)),
      signals_(std::move(signals)),
      stop_(std::move(stop)),
      deadline_(stop_.grace_period + stop_.kill_timeout + kNodeEndMargin) {}

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
  std::array<pollfd, 2> ready{{{signals_.get(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
  if (input_has_ended_) ready[1].fd = -1;
  timespec left{};
  const auto deadline = deadline_.next();
  if (deadline) {
    const auto until = std::max<std::chrono::nanoseconds>(*deadline - Clock::now(), 0ns);
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(until);
    left = {seconds.count(), static_cast<long>((until - seconds).count())};
  }
  if (ppoll(ready.data(), ready.size(), deadline ? &left : nullptr, nullptr) < 0 && errno != EINTR)
    end_input();
  take_signals();
  if (ready[1].revents != 0) take_input();
}

void NodeGuard::take_signals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo != SIGCHLD) pass_on(static_cast<int>(info.ssi_signo));
  }
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
  kill(node_, signal);
  if (!warden::ends_job(stop_, signal)) return;
  // It could not act on the signal; it is to end now, whatever stopped it.
  if (is_stopped_) kill(node_, SIGCONT);
  const auto now = Clock::now();
  deadline_.ending() ? deadline_.ends_within(stop_.kill_timeout + kNodeEndMargin, now)
                     : deadline_.stop_requested(now);
}

/// The launcher or its ssh is gone, so nothing else could end the node.
void NodeGuard::end_input() {
  if (std::exchange(input_has_ended_, true)) return;
  const bool is_ending = deadline_.ending();
  pass_on(SIGTERM);
  // A signal set that leaves SIGTERM out ends a node at once.
  if (!is_ending && !deadline_.ending()) deadline_.stop_requested(Clock::now());
}

void NodeGuard::look_at_node() {
  siginfo_t info{};
  const auto id = static_cast<id_t>(node_);
  while (waitid(P_PID, id, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 && info.si_pid == node_) {
    is_stopped_ = info.si_code == CLD_STOPPED;
    is_stopped_ ? deadline_.stopped(Clock::now()) : deadline_.continued();
    if (is_stopped_ && deadline_.ending()) kill(node_, SIGCONT);
    info = {};
  }
  int status = 0;
  if (waitpid(node_, &status, WNOHANG) != node_) return;
  finish(WIFEXITED(status) ? WEXITSTATUS(status) : kExitSignalBase + WTERMSIG(status));
}

void NodeGuard::look_at_deadline() {
  const std::string name = fmt::format("ddprun there (pid {})", node_);
  const auto now = Clock::now();
  switch (deadline_.due(now)) {
    case warden::AgentDeadline::Due::nothing:
      return;
    case warden::AgentDeadline::Due::say_stopped:
      return say(fmt::format(
          "{} is stopped (SIGSTOP); run `kill -CONT {}` there to resume it, or it is killed in {} "
          "s",
          name, node_, std::chrono::ceil<std::chrono::seconds>(deadline_.left(now)).count()));
    case warden::AgentDeadline::Due::end_job:
      kill(node_, SIGKILL);
      say(name + (deadline_.ending() ? " did not end in time" : " was stopped and not continued") +
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

}  // namespace ddprun::launcher
