// The rendezvous service as a pure state machine: connections, sessions, leases and jobs. Messages
// in, messages out. A round forms only when no node of the old one has workers left, so that two
// rounds never have workers at one time. No sockets, no clock, no threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "proto/session_messages.hpp"
#include "rendezvous/service/job.hpp"
#include "rendezvous/service/lack.hpp"
#include "rendezvous/service/tenants.hpp"

namespace ddprun::rdzv {

/// When a snapshot of a job takes the place of its records: once there are more than these since
/// the last one, and it is at rest.
struct SnapshotSettings {
  std::size_t records = 1'000;
  std::size_t records_per_session = 8;  ///< of those that the job has; a snapshot costs about one
};

struct ServiceSettings {
  /// The one job that it serves, once: to run that job again, start another service. Empty: it
  /// serves any job, again and again.
  std::string only_run_id;
  std::chrono::nanoseconds lease = std::chrono::seconds(15);  ///< where an agent wishes for none
  bool has_secret = false;       ///< agents and observers have proven it
  bool secret_by_munge = false;  ///< they know it by a credential alone
  /// What each tenant may have, where there are several, each with a secret for its jobs alone.
  std::optional<TenantLimits> tenant_limits;
  proto::ClockId clock = 0;  ///< of the times that it is given
  bool remembers = false;    ///< a journal brought back the jobs of the time before
  /// Another service may take its jobs over while this one runs: that an agent's connection is
  /// refused here then proves nothing.
  bool has_standbys = false;
  /// The service before this one ended while a round was out, and nothing else is known of it: its
  /// agents, with leases of this length, may still have workers. No round forms before these are
  /// over. None: there was none, or it ended in order, or that is not known.
  std::optional<std::chrono::nanoseconds> past_lease;
  std::optional<SnapshotSettings> snapshots;  ///< none: no records are kept
  std::size_t jobs_max = 10'000;
  std::size_t sessions_per_job_max = 100'000;
};

// Events
// -------------------------------------------------------------------------

/// A control channel is open.
struct ConnectionOpened {
  ConnectionId connection = 0;
  std::string run_id;
  std::string addr;       ///< numeric, of the peer
  std::string path = {};  ///< as base/socket.hpp has it; empty: unknown
};
/// A connection ended that was refused before it was open.
struct ConnectionRefused {
  std::string run_id;  ///< as it claimed
  std::string addr;    ///< numeric, of the peer
  Lack lack = Lack::proof;
};
/// The tenants are others than they were; none before the first event.
struct TenantsChanged {
  Tenants tenants;
};
struct ClientSaid {
  ConnectionId connection = 0;
  proto::ClientMessage message;
};
struct ConnectionEnded {
  ConnectionId connection = 0;
  /// By FIN: the agent's warden sends it when nothing of the job is left on the node. A reset
  /// proves nothing; nor does a FIN, where a forwarder may have sent it.
  bool cleanly = false;
};

/// Nothing of the job is left on a node, as the program that had started it there has seen. It is
/// what a clean end of a direct connection tells, for nodes behind a forwarder.
struct NodeGone {
  std::string run_id;
  std::string node;  ///< its name
};

using ServiceEvent = std::variant<ConnectionOpened, ConnectionRefused, TenantsChanged, ClientSaid,
                                  ConnectionEnded, NodeGone, DeadlinePassed>;

// Actions
// -------------------------------------------------------------------------

/// An event of a job that must be durable before anything else of these actions is done.
struct JobRecord {
  std::string run_id;
  Clock::time_point at;
  JobEvent event;
};
/// It takes the place of all records of the job so far, those of the same actions included. Also
/// durable first; but where it can't be, the records will do.
struct JobSnapshot {
  std::string run_id;
  std::vector<JobRecord> records;
};
struct ServiceSend {
  ConnectionId to = 0;
  proto::ServiceMessage message;
};
struct ServiceActions {
  std::vector<JobRecord> records;
  std::vector<JobSnapshot> snapshots;
  std::vector<ServiceSend> sends;
  std::vector<ConnectionId> attached;  ///< have a session from now on
  std::vector<ConnectionId> closes;    ///< after the sends
  std::vector<std::string> forget;     ///< jobs of which no record is needed any more
  std::vector<std::string> log;        ///< lines, at log level info
  std::vector<std::string> warnings;   ///< lines, for the people at the service
};

class ServiceCore {
 public:
  /// How much slower an agent's clock may be, and how long its kernel may take to kill.
  static constexpr double kClockDrift = 0.01;
  static constexpr std::chrono::seconds kKillMargin{2};
  /// After a connection's end: for workers that die with their agent and warden.
  static constexpr std::chrono::milliseconds kEndMargin{50};
  /// An agent is heard this often within its lease.
  static constexpr int kKeepAlivesPerLease = 5;
  /// After this many missed keep-alives an agent may be dead, and a fence request is accepted, also
  /// if it has no connection: that alone proves nothing.
  static constexpr int kSilentPeriods = 2;
  /// An agent that was lost before its job ended may come back so much later to learn how.
  static constexpr std::chrono::hours kLateComer{1};
  /// Waiting agents are told of a refused connection so often, at most.
  static constexpr std::chrono::seconds kRefusalsToldEvery{1};
  /// All agents together are heard so often, at most; with more, leases grow.
  static constexpr int kKeepAlivesPerSecondMax = 10'000;

  ServiceCore(ServiceSettings settings, Clock::time_point now)
      : settings_(std::move(settings)), began_at_(now) {}

  ServiceActions on(const ServiceEvent& event, Clock::time_point now);
  /// When DeadlinePassed is due; none: nothing is waited for.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;

  /// An event of the time before this service was started, in their order and before all else.
  void replay(const JobRecord& record);
  /// After the last of them: each session has its whole lease to come back. Its records, too, must
  /// be durable before anything else happens.
  ServiceActions begin(Clock::time_point now);

  /// Null: there is no such job.
  [[nodiscard]] const Job* job(const std::string& run_id) const;
  /// The longest lease under which workers may run somewhere; none: there are none. It is the
  /// `past_lease` of the next service, should this one be killed and leave no journal.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> lease_of_workers(
      Clock::time_point now) const;
  /// All agents of all jobs know how their job ended: none is waited for.
  [[nodiscard]] bool is_idle() const { return busy_jobs_ == 0; }
  /// Whether any agent has a session, now or until its lease is over.
  [[nodiscard]] bool has_sessions() const { return sessions_ > 0; }
  /// Whether `only_run_id` is over, and not all of its agents know that yet.
  [[nodiscard]] bool is_ending() const {
    const Job* const only = job(settings_.only_run_id);
    return only != nullptr && only->is_over() && !only->is_idle();
  }

 private:
  struct Entry {
    explicit Entry(Clock::time_point now) : job(now) {}
    Job job;
    std::optional<Clock::time_point> deadline;  // as it stands in deadlines_
    std::size_t records = 0;                    // since the last snapshot
    bool forgotten = false;                     // they are: a summary comes first
    bool is_replayed = false;                   // from a journal, which may be an old one
  };
  using Jobs = std::map<std::string, Entry>;
  struct Connection {
    std::string run_id;
    std::string addr;
    std::string path;
    proto::AgentId agent;    // empty: it has no session yet
    bool is_direct = false;  // the agent itself holds the other end
  };
  struct Context {
    Clock::time_point now;
    ServiceActions& actions;
  };
  struct EndedSession {
    Clock::time_point evict_at;
    std::string run_id;
    proto::AgentId agent;
  };

  void take(const ConnectionOpened& opened, Context& context);
  void take(const ConnectionRefused& refused, Context& context);
  void take(const TenantsChanged& changed, Context&) { tenants_ = changed.tenants; }
  void take(const ClientSaid& said, Context& context);
  void take(const ConnectionEnded& ended, Context& context);
  void take(const NodeGone& gone, Context& context);
  void take(const DeadlinePassed& passed, Context& context);

  void hear(ConnectionId id, Connection& from, const proto::Prove& prove, Context& context);
  void hear(ConnectionId id, Connection& from, const proto::Resume& resume, Context& context);
  void hear(ConnectionId id, Connection& from, const proto::Numbered& numbered, Context& context);
  void hear(ConnectionId id, Connection& from, const proto::KeepAlive& keep_alive,
            Context& context);
  void hear(ConnectionId id, Connection& from, const proto::Bye& bye, Context& context);
  void hear(ConnectionId id, Connection& from, const proto::StatusRequest& request,
            Context& context);
  void hear(ConnectionId id, Connection& from, const proto::Fence& fence, Context& context);

  void tell_of_refusal(const std::string& run_id, const std::string& addr, const std::string& why,
                       Context& context);
  void welcome(ConnectionId id, const proto::Resume& resume, const Connection& to,
               const Entry& entry, bool resumed, Context& context);
  void begin_job(const std::string& run_id, Entry& entry, std::chrono::nanoseconds lease,
                 Context& context);
  void wait_again_for_past(const std::string& run_id, Entry& entry, Context& context);
  void hear_of_past(const std::string& run_id, Entry& entry, proto::Epoch epoch,
                    std::chrono::nanoseconds lease, Context& context);
  [[nodiscard]] static bool is_outdated(const Entry& entry, const proto::Resume& resume);
  void lose_memory(const std::string& run_id, Entry& entry, std::chrono::nanoseconds lease,
                   Context& context);
  void refuse(ConnectionId id, proto::Refused::Why why, std::string reason, Context& context);
  void drop(ConnectionId id, Context& context);
  void drop_before_reboot(const std::string& run_id, Entry& entry, const proto::Join& join,
                          const std::string& addr, Context& context);
  /// Makes it durable, applies it and passes on what follows.
  void record(const std::string& run_id, Entry& entry, JobEvent event, Context& context);
  [[nodiscard]] bool is_told_here(const Entry& entry, const MembershipActions& actions,
                                  const std::string& warning) const;
  void take_snapshots(Context& context);
  void follow(const std::string& run_id, Entry& entry);
  static void forget(const std::string& run_id, Entry& entry, ServiceActions& actions);
  /// Without a sign of loss: it knows how the job ended.
  void end_session(const std::string& run_id, Entry& entry, const proto::AgentId& agent,
                   std::optional<proto::LossSign> lost, Context& context);
  void evict_ended(Context& context);
  void evict_silent(Context& context);
  void expect_word_of(const Job::Session& session);
  /// After so long without a word nothing of an agent's round can be left.
  [[nodiscard]] static std::chrono::nanoseconds silence_allowed(std::chrono::nanoseconds lease);
  [[nodiscard]] std::chrono::nanoseconds lease_for(const proto::Resume& resume) const;
  [[nodiscard]] bool make_room(ServiceActions& actions);
  void erase_empty(ServiceActions& actions);
  [[nodiscard]] bool is_visible(const std::string& job, const std::string& run_id) const;
  [[nodiscard]] std::string why_tenant_is_full(const std::string& run_id, bool one_more_job) const;
  [[nodiscard]] std::string no_job(const std::string& run_id) const;
  [[nodiscard]] static std::string why_not_fenced(const std::string& run_id, const Entry& entry,
                                                  const std::string& node, Clock::time_point now);
  [[nodiscard]] static proto::JobStatus status_of(const std::string& run_id, const Entry& entry,
                                                  Clock::time_point now);
  [[nodiscard]] static proto::MemberStatus status_of(const proto::AgentId& agent,
                                                     const Job::Session& session, const Job& job,
                                                     Clock::time_point now);

  ServiceSettings settings_;
  Clock::time_point began_at_;
  Tenants tenants_;
  Jobs jobs_;
  std::map<ConnectionId, Connection> connections_;
  std::string told_refusal_;  // the last one of which those that wait were told
  Clock::time_point told_refusal_at_ = Clock::time_point::min();
  std::int64_t sessions_ = 0;                                      // of all jobs
  std::int64_t busy_jobs_ = 0;                                     // that are not idle
  std::int64_t jobs_with_workers_ = 0;                             // that may have some
  std::chrono::nanoseconds longest_lease_{0};                      // that was ever granted
  std::set<std::pair<Clock::time_point, std::string>> deadlines_;  // of jobs
  std::deque<EndedSession> ended_;                                 // by time
  std::optional<Clock::time_point> check_at_;                      // no lease is over before
};

}  // namespace ddprun::rdzv
