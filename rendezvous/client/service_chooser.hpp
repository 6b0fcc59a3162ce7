// Where an agent looks for its rendezvous service: which host, which port, and what an answer there
// means for the attempt. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/endpoint.hpp"
#include "proto/session_messages.hpp"
#include "rendezvous/client/service_hosts.hpp"

namespace ddprun::rdzv {

class ServiceChooser {
 public:
  struct Settings {
    Endpoint first;                              ///< with its port
    std::vector<Endpoint> more_hosts = {};       ///< with their ports: one of them all has the jobs
    std::vector<std::uint16_t> more_ports = {};  ///< of `first`, tried behind its own
    bool follows_standby = true;  ///< a standby is an attempt that failed; else its answer counts
    bool has_finder = false;      ///< each attempt is led to another place
  };
  /// What becomes of an attempt that did not find the service.
  enum class Next {
    fails,      ///< a later one may find it
    next_host,  ///< it goes on there
    counts,     ///< what was found is the answer
  };

  explicit ServiceChooser(Settings settings);

  /// A new attempt.
  void begin_attempt();
  /// It asks the hosts, from the current one on.
  void begin_hosts() { hosts_.begin(); }
  /// It asks that place alone.
  void lead_to(const Endpoint& place);
  /// False: each host had its turn in this attempt.
  bool go_on() { return hosts_.go_on(); }

  [[nodiscard]] const Endpoint& host() const { return hosts_.current(); }
  [[nodiscard]] bool are_several() const { return hosts_.are_several(); }
  [[nodiscard]] bool has_next() const { return hosts_.has_next(); }
  /// To try at the current host, in this order.
  [[nodiscard]] const std::vector<std::uint16_t>& ports();
  /// The first to try of so many addresses of a host: one that does not answer must not hide the
  /// others from every attempt.
  [[nodiscard]] std::size_t first_of(std::size_t addresses) const {
    return (attempts_ - 1) % addresses;
  }
  /// A busy host has more time at every other attempt.
  [[nodiscard]] bool is_patient() const { return attempts_ % 2 == 0; }
  [[nodiscard]] bool is_welcomed() const { return is_welcomed_; }
  /// Whether a connection that was refused at an address proves that no service is there.
  [[nodiscard]] bool proves_absence(const std::string& addr) const {
    return !is_welcomed_ || addr == welcomed_from_;
  }

  /// The service at `port` refuses this node, or the other way round.
  Next refuse(const proto::Refused& refused, std::uint16_t port);
  /// A program at `port` does not talk as a rendezvous does. Counts: there is no other place.
  Next meet_stranger(std::uint16_t port);
  /// A service welcomes this node: it stays where it is. `addr` is numeric; empty: it is here.
  /// `port` may be 0 then. False: it serves every job that asks, while this one's nodes are at
  /// another port.
  [[nodiscard]] bool welcome(const proto::Welcome& welcome, const std::string& addr,
                             std::uint16_t port);
  /// What is told of an attempt that failed for `reason`: a standby only names the leader, which
  /// may be the one that refuses.
  [[nodiscard]] const std::string& why_failed(const std::string& reason) const {
    return refusal_.empty() ? reason : refusal_;
  }

 private:
  [[nodiscard]] bool may_be_at_other_port() const { return !is_welcomed_ && ports_.size() > 1; }
  void try_port_last(std::uint16_t port);

  const bool follows_standby_;
  const bool has_finder_;
  ServiceHosts hosts_;
  std::vector<std::uint16_t> ports_;
  std::size_t attempts_ = 0;
  std::string refusal_;  // of one of the hosts, in this attempt; empty: none has refused this node
  bool is_welcomed_ = false;
  std::string welcomed_from_;
};

}  // namespace ddprun::rdzv
