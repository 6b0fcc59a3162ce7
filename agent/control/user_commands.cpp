#include "agent/control/user_commands.hpp"

#include <array>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <boost/asio/post.hpp>

#include "agent/events/event_json.hpp"
#include "base/describe.hpp"
#include "base/printable.hpp"
#include "base/result.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::agent {
namespace {

constexpr int kNotExecutable = 126;  // so ends a shell that cannot execute a command
constexpr int kNotFound = 127;

std::vector<std::string> by_shell(const std::string& command) { return {"/bin/sh", "-c", command}; }

/// Empty: it has ended with 0.
std::string why_failed(const machine::HelperResult& result, std::chrono::nanoseconds limit) {
  if (!result.problem.empty()) return "/bin/sh cannot be started: " + result.problem;
  if (!result.in_time) return fmt::format("not finished within {}", describe(limit));
  // One that ends while all that is left of a round is killed has an exit that is not known.
  if (!result.exit || result.exit->success()) return "";
  const std::string last_line = last_line_of(result);
  return describe(*result.exit) + (last_line.empty() ? "" : ": " + printable(last_line));
}

}  // namespace

EventCommand::EventCommand(boost::asio::io_context& context, const machine::UserState& user,
                           const AgentConfig& config, const EventLog& log,
                           std::function<void(const std::string& line)> warn)
    : context_(context),
      config_(config),
      log_(log),
      warn_(std::move(warn)),
      program_(context, user) {}

void EventCommand::follow() {
  if (state_ != State::idle) return;
  state_ = State::about_to_run;
  boost::asio::post(context_, [this] {
    if (state_ == State::about_to_run) run_next();
  });
}

const JobEvent* EventCommand::take() {
  while (const JobEvent* const event = log_.from(next_event_)) {
    missed_ += event->number - next_event_;
    next_event_ = event->number + 1;
    if (!std::holds_alternative<LinePrinted>(event->what)) return event;
  }
  return nullptr;
}

void EventCommand::run_next() {
  const JobEvent* const event = take();
  state_ = event != nullptr ? State::runs : State::idle;
  if (event == nullptr) return;
  program_.start({.argv = by_shell(config_.commands.on_event),
                  .limit = kLimit,
                  .input = event_json(*event, config_.node.name) + "\n",
                  .environment = {fmt::format("{}={}", proto::env::kEvent, name_of(event->what)),
                                  fmt::format("{}={}", proto::env::kRunId, config_.run_id)}},
                 [this](const machine::HelperResult& result) { end(result); });
}

void EventCommand::end(const machine::HelperResult& result) {
  const std::string why = why_failed(result, kLimit);
  if (!why.empty() && !std::exchange(has_warned_, true))
    warn_("warning: the command of --on-event has failed, which is not told again: " + why);
  run_next();
}

bool EventCommand::is_busy() const {
  return state_ == State::runs || state_ == State::about_to_run;
}

std::uint64_t EventCommand::stop() {
  if (state_ == State::runs) ++missed_;
  state_ = State::stopped;
  program_.stop();
  while (take() != nullptr) ++missed_;
  return missed_;
}

NoticeCommand::NoticeCommand(boost::asio::io_context& context, const machine::UserState& user,
                             std::string command, Events events)
    : command_(std::move(command)),
      events_(std::move(events)),
      program_(context, user),
      again_(context) {}

void NoticeCommand::start() {
  if (is_stopped_) return;
  program_.start({.argv = by_shell(command_), .limit = kLimit},
                 [this](const machine::HelperResult& result) { end(result); });
}

void NoticeCommand::end(const machine::HelperResult& result) {
  if (is_stopped_) return;
  const std::string why = why_failed(result, kLimit);
  if (why.empty() && result.exit) {
    text_ = last_line_of(result);
    events_.came(*text_);
    return save_when_possible();
  }
  const int code = result.exit && !result.exit->by_signal ? result.exit->value : 0;
  const bool is_no_command = !result.problem.empty() || code == kNotExecutable || code == kNotFound;
  if (is_no_command && !std::exchange(has_warned_, true))
    events_.warn("warning: the command of --on-notice cannot be run: " + why);
  again_later([this] { start(); });
}

void NoticeCommand::save_when_possible() {
  if (events_.save(*text_)) return;
  if (!std::exchange(has_warned_, true))
    events_.warn("no worker saves when asked now: they are asked when one does");
  again_later([this] { save_when_possible(); });
}

void NoticeCommand::again_later(std::function<void()> then) {
  again_.expires_after(kAgainAfter);
  again_.async_wait([this, then = std::move(then)](ErrorCode cancelled) {
    if (!cancelled && !is_stopped_) then();
  });
}

void NoticeCommand::stop() {
  is_stopped_ = true;
  again_.cancel();
  program_.stop();
}

void UserCommands::add(boost::asio::io_context& context, const machine::UserState& user,
                       const AgentConfig& config, const EventLog& log,
                       NoticeCommand::Events events) {
  const CommandSettings& wanted = config.commands;
  if (!wanted.on_event.empty()) on_event.emplace(context, user, config, log, events.warn);
  if (!wanted.on_notice.empty())
    on_notice.emplace(context, user, wanted.on_notice, std::move(events));
}

bool UserCommands::child_ended(pid_t pid) {
  return (on_event && on_event->program().child_ended(pid)) ||
         (on_notice && on_notice->program().child_ended(pid));
}

void UserCommands::note_reaped(pid_t pid) {
  if (on_event) on_event->program().child_reaped(pid);
  if (on_notice) on_notice->program().child_reaped(pid);
}

void UserCommands::stop() {
  if (on_event) on_event->stop();
  if (on_notice) on_notice->stop();
}

std::set<pid_t> UserCommands::sessions() {
  std::set<pid_t> sessions;
  if (on_event && on_event->program().pid() > 0) sessions.insert(on_event->program().pid());
  if (on_notice && on_notice->program().pid() > 0) sessions.insert(on_notice->program().pid());
  return sessions;
}

}  // namespace ddprun::agent
