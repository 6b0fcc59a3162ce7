// What asks this agent on its own machine, and what it tells there.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>

#include "agent/config.hpp"
#include "agent/control/elastic_workers.hpp"
#include "agent/control/event_file.hpp"
#include "agent/control/job_answers.hpp"
#include "agent/control/job_socket.hpp"
#include "agent/control/user_commands.hpp"
#include "agent/events/event_log.hpp"
#include "agent/events/ledger.hpp"
#include "agent/node/node_machine.hpp"
#include "agent/streams/recent_output.hpp"

namespace ddprun::agent {

struct LocalConnections {
  /// Before the first worker. What cannot be opened is told by `notice`, and the job does without.
  /// References are borrowed.
  void open(boost::asio::io_context& context, const AgentConfig& config, const NodeMachine& machine,
            const std::shared_ptr<RecentOutput>& output,
            const std::function<void(const std::string& line)>& notice);
  /// Behind the start of the first workers.
  void start();
  /// Empty: there is none.
  [[nodiscard]] std::string socket_name() const { return socket ? socket->name() : ""; }
  /// The machine is about to handle it.
  void note(const NodeEvent& event, const NodeMachine& machine, EventLog::Time now);
  /// Something has happened that is no event of the machine.
  void note(Happening what, const NodeMachine& machine, EventLog::Time now);
  /// The machine may have another state now.
  void follow(const AgentConfig& config, const NodeMachine& machine);
  /// Up to now.
  [[nodiscard]] LedgerEntries ledger_entries(const AgentConfig& config, const NodeMachine& machine,
                                             Ledger::TimePoint now) const;
  /// The job is over, and its report printed: tells the rest. Runs the context meanwhile, for
  /// kEndLimit at most; what is lost is told on stderr.
  void end(boost::asio::io_context& context, const AgentConfig& config, int exit_code);

  static constexpr std::chrono::seconds kEndLimit{12};

  ElasticWorkers workers;
  JobAnswers answers;
  Ledger ledger;
  EventLog events = {};
  std::optional<EventFile> event_file = std::nullopt;  ///< none: none is wanted
  std::optional<JobSocket> socket = std::nullopt;      ///< none: the system has refused it
  UserCommands commands = {};
  bool is_in_a_hurry = false;  ///< the user does not wait for the end

 private:
  void tell();
};

}  // namespace ddprun::agent
