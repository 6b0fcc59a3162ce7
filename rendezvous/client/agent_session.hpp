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
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "proto/session_messages.hpp"
#include "rendezvous/client/job_clock.hpp"

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
  /// The job's outcome was delivered.
  [[nodiscard]] bool is_over() const { return over_; }
  /// Until when workers may run; none: there was no service yet.
  [[nodiscard]] std::optional<SessionClock::time_point> lease_end() const { return lease_end_; }

 private:
  /// So many unanswered keep-alives: the connection is dead.
  static constexpr int kUnansweredMax = 2;

  enum class Link {
    waiting,     ///< until the next attempt
    connecting,  ///< Connect was not answered yet
    resuming,    ///< `resume` was not answered yet
    attached,    ///< messages are exchanged
    unknown,     ///< the service does not know the session; the workers are being killed
  };
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

  void hear(proto::Prove& prove, Context& context);
  void hear(proto::Welcome& welcome, Context& context);
  void hear(proto::Alive& alive, Context& context);
  void hear(proto::Refused& refused, Context& context);
  void hear(proto::Status& status, Context& context);
  void hear(proto::MembershipMessage& message, Context& context);
  [[nodiscard]] bool is_new(const proto::MembershipMessage& message) const;

  void connect(Context& context);
  void break_off(Context& context);
  void reconnect_later(Context& context);
  void resume(Context& context);
  void send_numbered(proto::AgentMessage message, Context& context);
  void send(const proto::Numbered& numbered, Context& context);
  void answer_for_missed_round(proto::RoundNumber round, Context& context);
  void fence(const std::string& reason, Context& context);
  void begin_again(Context& context);
  void forget_up_to(std::uint64_t acknowledged);
  void tell_again_when_round_began(Context& context);
  void renew_lease(SessionClock::time_point until, Context& context);
  void finish(std::string reason, Context& context);
  void give_up(Context& context);
  void leave_unanswered(Context& context);
  [[nodiscard]] bool leaves_unanswered() const;
  [[nodiscard]] std::chrono::nanoseconds lost_after() const;
  [[nodiscard]] SessionClock::time_point gives_up_at() const;
  [[nodiscard]] bool must_fence() const;
  [[nodiscard]] std::optional<SessionClock::time_point> silence_told_at() const;
  void tell_of_silence(Context& context);
  void tell_of_failure(const proto::WorkerFailed& failed, Context& context);
  void tell_of_return(Context& context);

  const SessionSettings settings_;
  std::minstd_rand random_;
  Link link_ = Link::waiting;
  proto::AgentId own_id_;
  int sessions_ = 1;
  proto::AgentId welcomed_as_;  // the last session that the service knew
  bool over_ = false;

  // What the service has not acknowledged, by sequence number.
  std::deque<proto::Numbered> unacknowledged_;
  std::uint64_t next_seq_ = 1;
  std::optional<proto::Epoch> epoch_;

  // The agent's place in the job, as far as its messages tell.
  std::optional<proto::AgentMessage> pending_;        // Join or Leave that waits for its answer
  std::optional<SessionClock::time_point> leave_at_;  // without the service's answer
  std::optional<proto::PastRound> past_;              // the last round that was delivered
  std::optional<proto::RoundNumber> round_;           // of which something may be left on the node
  std::optional<proto::RoundNumber> stopped_;         // the round before, once that was told
  std::optional<SessionClock::time_point> round_began_;  // it or round_, by what was submitted
  int nodes_ = 1;                                        // of the last round
  std::optional<proto::RoundNumber> stop_;               // the newest that was delivered
  std::uint64_t check_ = 0;                              // of the newest that was delivered
  bool final_ = false;                                   // no other round follows for this node
  bool done_ = false;                                    // its workers have succeeded
  bool fenced_ = false;                                  // its workers are being killed

  // Time.
  SessionClock::time_point began_at_;
  std::chrono::nanoseconds lease_;
  std::chrono::nanoseconds period_;
  std::optional<SessionClock::time_point> lease_end_;
  std::optional<SessionClock::time_point> heard_at_;  // the last message that counts
  SessionClock::time_point cut_at_{};                 // the last connection, by the other side
  SessionClock::time_point attempt_at_;               // the last Connect or Resume
  SessionClock::time_point next_attempt_at_;
  std::chrono::nanoseconds pause_;  // its upper bound, before the next attempt
  SessionClock::time_point keep_alive_at_;
  std::uint64_t keep_alives_ = 0;
  std::deque<std::pair<std::uint64_t, SessionClock::time_point>> asked_;  // by number
  JobClock job_clock_;
  std::string trouble_;        // why the last attempt failed
  std::string path_;           // of the connection
  bool in_agent_ = false;      // the service ends with an agent of the job
  bool direct_ = false;        // the last welcome came from there, not through a forwarder
  bool refused_ = false;       // the service is not there
  std::string why_elsewhere_;  // the service is not here, by the last attempt
  std::string told_trouble_;   // of which people were told; empty: of none
  SessionClock::time_point told_at_{};
};

}  // namespace ddprun::rdzv
