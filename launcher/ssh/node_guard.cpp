#include "launcher/ssh/node_guard.hpp"

#include <unistd.h>

#include <array>
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

}  // namespace ddprun::launcher
