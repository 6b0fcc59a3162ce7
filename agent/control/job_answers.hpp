// Answers what ddpctl asks of this node's part in the job, and does what it asks for.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include <boost/asio/io_context.hpp>

#include "agent/config.hpp"
#include "agent/control/job_request.hpp"
#include "agent/control/job_socket.hpp"
#include "agent/control/job_status.hpp"
#include "agent/control/save_requests.hpp"
#include "agent/node/node_machine.hpp"
#include "agent/progress/stack_taker.hpp"

namespace ddprun::agent {

class JobAnswers {
 public:
  struct Events {
    std::function<void(const std::string& line)> notice;  ///< a line for the user
    /// The job gets a signal that ends it on all nodes; `later`: than now, as far as it counts.
    std::function<void(int signal, std::chrono::nanoseconds later)> signalled;
    std::function<void(const SaveOutcome&)> saved;
    /// All workers of the job are started anew. False: its rendezvous is too old to be asked for
    /// it.
    std::function<bool()> restart;
    LastLine last_line;
    std::function<LedgerEntries()> ledger;
    std::function<std::map<int, double>()> slow;  ///< as SlowRankWatch's
  };

  /// All references are borrowed.
  JobAnswers(boost::asio::io_context& context, const AgentConfig& config,
             const machine::UserState& user, const NodeMachine& machine, Events events);

  void answer(const JobRequest& request, pid_t asker, JobSocket::Reply reply);

  /// A worker of this node says that it saves when asked.
  [[nodiscard]] bool can_save() const { return saves_.any_saves(); }
  /// Without a ddpctl that waits for it; `why` is for the user. One that comes while another one is
  /// being met is met after it.
  void save_unasked(const std::string& why);

  /// The workers are to leave their round. No helper program is left.
  void stop();
  /// A worker has been reaped.
  void worker_ended(pid_t pid) { stacks_.worker_ended(pid); }
  /// As HelperProgram's.
  bool child_ended(pid_t pid) { return stacks_.child_ended(pid); }

 private:
  void save(std::chrono::seconds limit, const SaveRequests::Done& done);
  void save_for_nobody();
  void take_stacks(int rank, JobSocket::Reply reply);
  [[nodiscard]] std::string send_signal(const SignalWanted& wanted) const;
  /// Null: no worker of this node has the rank, and runs.
  [[nodiscard]] const WorkerRecord* running_worker(int rank) const;

  const AgentConfig& config_;
  const NodeMachine& machine_;
  const Events events_;
  const Clock::time_point started_ = Clock::now();
  StackTaker stacks_;
  SaveRequests saves_;
  enum class Unasked { none, saves, saves_again } unasked_ = Unasked::none;
  JobSocket::Reply waits_for_stacks_;  // empty: nobody does
};

}  // namespace ddprun::agent
