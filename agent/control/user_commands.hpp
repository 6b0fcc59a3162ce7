// Commands of the user that run beside the workers, one process of each at a time: --on-event and
// --on-notice. They are no workers, and nothing that workers have left.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/config.hpp"
#include "agent/events/event_log.hpp"
#include "machine/programs/helper_program.hpp"

namespace ddprun::agent {

/// Is run for each event of the job in turn, but for lines that ddprun prints. It has the event as
/// JSON on its stdin, its name in DDPRUN_EVENT and the job in TORCHELASTIC_RUN_ID. The job never
/// waits for it; of events that are not kept until their turn it is not told.
class EventCommand {
 public:
  /// Then one that runs is killed, and the next event has its turn.
  static constexpr std::chrono::seconds kLimit{30};

  /// All but `warn` is borrowed; that is given a line for the user once, when it has failed.
  EventCommand(boost::asio::io_context& context, const machine::UserState& user,
               const AgentConfig& config, const EventLog& log,
               std::function<void(const std::string& line)> warn);

  /// There may be a new event. The command is started from the context, not at once.
  void follow();
  /// It runs, or there is an event for it.
  [[nodiscard]] bool is_busy() const;
  /// The end: kills it. Gives how many events it was not told of.
  std::uint64_t stop();

  machine::HelperProgram& program() { return program_; }

 private:
  void run_next();
  void end(const machine::HelperResult& result);
  /// The next one for it; null: there is none.
  const JobEvent* take();

  boost::asio::io_context& context_;
  const AgentConfig& config_;
  const EventLog& log_;
  const std::function<void(const std::string&)> warn_;
  machine::HelperProgram program_;
  std::uint64_t next_event_ = 1;
  std::uint64_t missed_ = 0;
  enum class State { idle, about_to_run, runs, stopped } state_ = State::idle;
  bool has_warned_ = false;
};

/// Tells when the workers are to save because this machine is about to be taken away: the command
/// is run until it ends with 0, again a moment after each other end.
class NoticeCommand {
 public:
  static constexpr std::chrono::seconds kAgainAfter{5};
  /// Then one that still runs is run anew.
  static constexpr std::chrono::hours kLimit{24};

  struct Events {
    std::function<void(const std::string& text)> came;  ///< once; the last line of its output
    /// After that, until it is true: the workers have been asked to save.
    std::function<bool(const std::string& text)> save;
    std::function<void(const std::string& line)> warn;  ///< a line for the user
  };

  /// The user's state is borrowed.
  NoticeCommand(boost::asio::io_context& context, const machine::UserState& user,
                std::string command, Events events);

  void start();
  /// Kills it.
  void stop();

  machine::HelperProgram& program() { return program_; }

 private:
  void end(const machine::HelperResult& result);
  void save_when_possible();
  void again_later(std::function<void()> then);

  const std::string command_;
  const Events events_;
  machine::HelperProgram program_;
  boost::asio::steady_timer again_;
  std::optional<std::string> text_;  // none: the notice has not come
  bool has_warned_ = false;
  bool is_stopped_ = false;
};

struct UserCommands {
  /// Those that the configuration wants. Context, user's state and log are borrowed.
  void add(boost::asio::io_context& context, const machine::UserState& user,
           const AgentConfig& config, const EventLog& log, NoticeCommand::Events events);
  bool child_ended(pid_t pid);
  /// All that was left of a round has been killed, and with it this process was reaped.
  void note_reaped(pid_t pid);
  void stop();
  /// Those that stay when a round ends.
  [[nodiscard]] std::set<pid_t> sessions();

  std::optional<EventCommand> on_event = std::nullopt;  ///< none: none is wanted
  std::optional<NoticeCommand> on_notice = std::nullopt;
};

}  // namespace ddprun::agent
