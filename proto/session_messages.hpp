// What an agent and the rendezvous service say around the membership messages: their names, what
// has arrived, that they live. One session lasts through many connections.
//
//   both       hello                                   at once
//   both       prove                                   where the hello of the service asks for it
//   agent      resume, then the numbered messages that the service has not acknowledged
//   service    welcome, then the agent's round or the end of its job again
//   agent      numbered messages, keep_alive           service    alive, membership messages
//   agent      bye, when it has read `finished`
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::proto {

/// HMAC-SHA256.
using Proof = std::array<std::uint8_t, 32>;

/// "I have the secret." Both sides send one; see proto/frame_tag.hpp.
struct Prove {
  Proof proof{};
};

// From an agent
// -------------------------------------------------------------------------

/// The first message of every connection of an agent: which session goes on here.
struct Resume {
  AgentId agent;
  /// The epoch of the agent's session; none: it begins one, and a Join follows.
  std::optional<Epoch> epoch;
  std::optional<RoundNumber> round;   ///< of which it has workers
  std::uint64_t next_seq = 1;         ///< of the next message that it has not sent before
  std::uint64_t acknowledged = 0;     ///< by the service, as far as the agent has heard
  std::chrono::nanoseconds lease{0};  ///< that it has or wishes for; 0: the service chooses
  /// Its session before: it is over, and nothing of its round is left on the node. Empty: none.
  AgentId replaces;
  std::chrono::nanoseconds age{0};  ///< since the agent was started
  /// Both ends of the connection as the agent sees them (base/socket.hpp). Empty: unknown.
  std::string path;
};
/// A message that changes the job's state. Numbers of a session begin with 1 and have no gap; the
/// agent keeps each until it is acknowledged and sends it again on a new connection.
struct Numbered {
  std::uint64_t seq = 0;
  AgentMessage message;
};
struct KeepAlive {
  std::uint64_t number = 0;
  std::chrono::nanoseconds sent{0};  ///< by the agent's clock
};
/// The agent has read the job's outcome and will not come back.
struct Bye {};

/// A place in the list of all jobs and their nodes, which is sorted by run id and agent.
struct StatusPlace {
  std::string run_id;  ///< from this job on; empty: from the first
  AgentId agent;       ///< of that job's nodes only those after this one; empty: all
  friend auto operator<=>(const StatusPlace&, const StatusPlace&) = default;
};
/// An observer, such as `rdzvd --status`, asks for one page of the list, from a place on.
struct StatusRequest {
  StatusPlace from;
};
/// An observer ends a node's session at once, for a person who has made sure that nothing of the
/// job is left on the node. Answered by the Status after that, or by Refused.
struct Fence {
  std::string node;  ///< its name, or the id of its agent
};

using ClientMessage = std::variant<Prove, Resume, Numbered, KeepAlive, Bye, StatusRequest, Fence>;

// From the service. Job time is the clock of one epoch. An rdzvd with a
// journal on the disk goes on with it after a restart; one that takes over by etcd has another.
// ------------------------------------------------------------------------

struct Welcome {
  Epoch epoch = 0;
  /// False: the service knows nothing of the agent's session. The agent then ends its workers and
  /// joins afresh.
  bool resumed = false;
  std::uint64_t acknowledged = 0;  ///< the highest sequence number that is durable
  std::chrono::nanoseconds lease{0};
  std::chrono::nanoseconds keep_alive_period{0};
  std::chrono::nanoseconds job_time{0};
  ClockId clock = 0;  ///< of job_time
  /// The service sees the same path: nothing between the two holds connections of its own, so only
  /// they end or refuse one.
  bool direct = false;
  bool in_agent = false;  ///< an agent of the job runs the service, which ends with it
  bool restarts = false;  ///< it knows AskRestart
};
/// Answers a KeepAlive: with the four times the agent learns job time.
struct Alive {
  std::uint64_t number = 0;  ///< the KeepAlive's
  std::chrono::nanoseconds received{0};
  std::chrono::nanoseconds answered{0};
  std::uint64_t acknowledged = 0;
};
/// The service closes the connection after it.
struct Refused {
  enum class Why {
    wrong_secret,  ///< the proof is wrong, or missing where one is needed
    other_job,     ///< this service serves another run id only
    limit,         ///< of connections, jobs or agents
    broken,        ///< frames that the protocol does not allow
    no_fence,      ///< the node to fence is unknown or may be alive, or the asker may not
    elsewhere,     ///< this rdzvd is a standby: another one has the jobs
    encryption,    ///< one side encrypts the connection and the other does not
    certificate,   ///< one side does not accept the other's certificate; never in a message
  } why = Why::broken;
  std::string reason;  ///< for people: what was expected and what to do
  /// With `elsewhere`: HOST:PORT of the one that has the jobs; empty: none has them now.
  std::string place = {};
};
struct MemberStatus {
  AgentId agent;
  std::string node_name;
  std::optional<int> group_rank;  ///< in the newest round, where it has a part in it
  bool connected = false;
  std::chrono::nanoseconds silent_for{0};
  bool silent_for_longer = false;  ///< silent_for only counts from the service's start
};
struct JobStatus {
  std::string run_id;
  Epoch epoch = 0;
  std::string phase;
  std::optional<RoundNumber> round;
  int nodes = 0;  ///< with a session; `members` has those of this page
  int min_nodes = 0;
  int max_nodes = 0;
  int restart_count = 0;
  int max_restarts = 0;
  std::chrono::nanoseconds age{0};
  std::vector<MemberStatus> members;  ///< at most kStatusMembersMax
};
/// One page of the list; it fits into a frame.
struct Status {
  std::vector<JobStatus> jobs;      ///< at most kStatusJobsMax
  int job_count = 0;                ///< of all pages
  std::optional<StatusPlace> next;  ///< where the next page begins; none: this is the last one
  bool journal = false;             ///< whether jobs outlive the service
  bool durable = true;              ///< false: the journal cannot be written
};

using ServiceMessage = std::variant<Prove, Welcome, Alive, Refused, Status, MembershipMessage>;

std::string encode(const ClientMessage& message);
std::string encode(const ServiceMessage& message);

/// Errors: malformed; unknown_kind.
Result<ClientMessage> decode_client_message(std::string_view body);
Result<ServiceMessage> decode_service_message(std::string_view body);

}  // namespace ddprun::proto
