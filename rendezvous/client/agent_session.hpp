// An agent's session with the rendezvous service, as a pure state machine: it outlives connections,
// sends again what was not acknowledged, keeps the lease under which workers may run, and gives the
// agent each message once. The session ends with the job. No sockets, no clock.
//
// Without an answer for a whole lease the agent's workers are killed: the service then counts the
// node as lost and may start others. A service that is not there (connections are refused) starts
// no workers; so a refused connection renews the lease, until `lost_timeout`. A forwarder that is
// not there proves nothing: so only where the last connection to the service was a direct one.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "proto/session_messages.hpp"
#include "rendezvous/client/agent_place.hpp"
#include "rendezvous/client/job_clock.hpp"
#include "rendezvous/client/session_parts.hpp"

namespace ddprun::rdzv {

struct SessionSettings {
  proto::AgentId agent;  ///< unique among all agents that ever were; later sessions add "/2", ...
  std::string service;   ///< HOST:PORT, for people
  std::chrono::nanoseconds lease = std::chrono::seconds(15);          ///< that it wishes for
  std::chrono::nanoseconds join_timeout = std::chrono::seconds(600);  ///< until the first answer
  std::chrono::nanoseconds lost_timeout = std::chrono::seconds(300);  ///< later; a lease at least
  std::uint32_t seed = 1;                                             ///< of the pauses' jitter
};

// Events
// -------------------------------------------------------------------------

/// From the agent.
struct Submitted {
  proto::AgentMessage message;
  /// WorkerFailed and Stopped: when the round began here. They tell it in job time.
  std::optional<SessionClock::time_point> round_began = {};
};
/// Answers Connect: a control channel is open.
struct Connected {
  std::string path = {};  ///< as base/socket.hpp has it; empty: unknown
};
/// Answers Connect, or a connection has ended that was open.
struct ConnectionFailed {
  bool refused = false;  ///< nothing listens there
  std::string reason;
  std::string why_elsewhere = {};  ///< why the service is not on this machine; empty: unknown
};
struct ServiceSaid {
  proto::ServiceMessage message;
};
struct SessionTimePassed {};

using SessionEvent =
    std::variant<Submitted, Connected, ConnectionFailed, ServiceSaid, SessionTimePassed>;

// Actions
// -------------------------------------------------------------------------

/// Resolve the service's name again and connect.
struct Connect {};
struct SendToService {
  proto::ClientMessage message;
};
/// Give up the connection, by a reset: its end by FIN means that nothing of the job is left here.
struct ResetConnection {};
/// To the agent.
struct Deliver {
  proto::MembershipMessage message;
};
/// Workers may run until then.
struct LeaseMoved {
  SessionClock::time_point until;
};
/// A line for people.
struct Tell {
  std::string line;
};

using SessionAction =
    std::variant<Connect, SendToService, ResetConnection, Deliver, LeaseMoved, Tell>;
using SessionActions = std::vector<SessionAction>;

class AgentSession {
 public:
  AgentSession(SessionSettings settings, SessionClock::time_point now);

  SessionActions on(SessionEvent event, SessionClock::time_point now);
  /// When SessionTimePassed is due; none: nothing is waited for.
  [[nodiscard]] std::optional<SessionClock::time_point> deadline() const;

  /// What the service calls this agent now.
  [[nodiscard]] const proto::AgentId& own_id() const { return own_id_; }
  /// Whether the service takes AskRestart; to another one it would break the protocol.
  [[nodiscard]] bool can_ask_restart() const { return restarts_; }
  /// The job's outcome was delivered.
  [[nodiscard]] bool is_over() const { return over_; }
  /// Until when workers may run; none: there was no service yet.
  [[nodiscard]] std::optional<SessionClock::time_point> lease_end() const { return lease_.end(); }

 private:
  // States
  struct Waiting {
    SessionClock::time_point until;  ///< the next attempt
  };
  struct Connecting {
    SessionClock::time_point since;  ///< Connect was not answered yet
  };
  struct Resuming {
    SessionClock::time_point since;  ///< `resume` was not answered yet
  };
  struct Attached {
    KeepAlives keep_alives;  ///< messages are exchanged
  };
  struct Unknown {};  ///< the service does not know the session; the workers are being killed
  using Link = std::variant<Waiting, Connecting, Resuming, Attached, Unknown>;

  struct Context {
    SessionClock::time_point now;
    SessionActions& actions;
    void act(SessionAction action) { actions.push_back(std::move(action)); }
  };

  void take(Submitted& submitted, Context& context);
  void take(Connected& connected, Context& context);
  void take(ConnectionFailed& failed, Context& context);
  void take(ServiceSaid& said, Context& context);
  void take(SessionTimePassed& passed, Context& context);

  void hear(proto::Welcome& welcome, Context& context);
  void hear(proto::Alive& alive, Context& context);
  void hear(proto::Refused& refused, Context& context);
  void hear(proto::MembershipMessage& message, Context& context);

  template <class State>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<State>(link_);
  }
  void connect(Context& context);
  void break_off(Context& context);
  void give_up_connection(std::string trouble, Context& context);
  void reconnect_later(Context& context);
  void resume(Context& context);
  void send_numbered(proto::AgentMessage message, Context& context);
  void send(const proto::Numbered& numbered, Context& context);
  void fence(const std::string& reason, Context& context);
  void begin_again(Context& context);
  void tell_again_when_round_began(Context& context);
  void renew_lease(SessionClock::time_point until, Context& context);
  void finish(std::string reason, Context& context);
  void leave_unanswered(Context& context);
  [[nodiscard]] std::string why_given_up() const;
  [[nodiscard]] std::optional<SessionClock::time_point> attempt_ends_at() const;
  [[nodiscard]] std::optional<SessionClock::time_point> silence_told_at() const;
  void tell_of_silence(Context& context);

  const SessionSettings settings_;
  AttemptPauses pauses_;
  Link link_;
  SessionLease lease_;
  SessionOutbox outbox_;
  AgentPlace place_;
  SilenceReports silence_;
  JobClock job_clock_;
  std::uint64_t keep_alives_ = 0;  // of all connections
  proto::AgentId own_id_;
  int sessions_ = 1;
  proto::AgentId welcomed_as_;  // the last session that the service knew
  std::optional<proto::Epoch> epoch_;
  bool over_ = false;
  std::string path_;           // of the connection
  bool in_agent_ = false;      // the service ends with an agent of the job
  bool restarts_ = false;      // it knows AskRestart
  bool direct_ = false;        // the last welcome came from there, not through a forwarder
  bool refused_ = false;       // the service is not there
  std::string why_elsewhere_;  // the service is not here, by the last attempt
};

}  // namespace ddprun::rdzv
