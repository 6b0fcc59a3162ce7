// What a seed chooses before a history begins: which faults it has, what the user of the job asked
// for, and constants of the programs that are shrunk so that their limits are met more often.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "proto/job_settings.hpp"
#include "rendezvous/service/service_core.hpp"
#include "tests/sim/world.hpp"

namespace ddprun::sim {

/// Which faults a history has; each seed draws its own.
struct Faults {
  /// Only of the network, of the service with its journal, and of clocks; each is shorter than half
  /// a lease, and one ends before the next begins. Workers must not notice any of them.
  bool are_mild = false;
  bool workers_fail = false;
  bool bad_batch = false;  ///< many of them fail at nearly one time
  bool workers_hang = false;
  bool nodes_crash = false;
  bool nodes_vanish = false;  ///< silently: it takes a lease until they count as lost
  bool hosts_reboot = false;  ///< so do they, and come back with another boot id
  bool nodes_come = false;
  bool strangers_come =
      false;                 ///< with another secret, --nnodes or other settings, or a rank twice
  bool nodes_leave = false;  ///< by SIGTERM
  bool cancelled = false;    ///< by SIGINT
  bool restarts_asked = false;  ///< by people, for no fault of the job
  bool agents_freeze = false;   ///< SIGSTOP; their workers run on
  bool hosts_sleep = false;     ///< suspend to memory: nothing of them runs, clocks go on
  bool clocks_differ = false;   ///< in speed, by as much as is allowed
  bool network_cut = false;
  bool connections_break =
      false;                      ///< by a reset in mid-stream, or half of them or all is forgotten
  bool firewall_rejects = false;  ///< new connections, by a message of ICMP
  bool has_forwarders = false;    ///< between some nodes and the service; they end now and then
  bool readers_slow = false;      ///< agents read little for a time, and queues fill
  bool links_slow = false;        ///< for a time, by seconds
  bool links_hiccup = false;      ///< now and then what is sent waits up to a second
  bool service_crashes = false;
  bool service_forgets = false;  ///< it may come back without its journal, or with a damaged one
  bool disk_fills = false;       ///< for a time; the journal is lost if the service crashes then
  /// It never had one. Nodes that it has forgotten need not be there to tell of the past: rounds
  /// and restarts are then counted anew.
  bool service_has_no_journal = false;
  // Several rdzvd with a journal in etcd; the service_... ones are then the leader's.
  bool over_etcd = false;
  bool leader_freezes = false;  ///< SIGSTOP, for longer or shorter than its lease
  bool leader_cut_off = false;  ///< from etcd, not from agents
  bool etcd_goes_away = false;  ///< no member answers for a time
  bool etcd_is_slow = false;    ///< for a time, by seconds
  bool etcd_loses = false;      ///< requests, and more often answers, for a time
  bool etcd_clocks_are_wrong = false;
  /// Workers can take part in another round, as far as chance has it.
  bool workers_go_on = false;
  bool nodes_are_checked = false;  ///< and a check may fail or hang, unless all is mild
};

/// After so long a check that hangs has failed.
inline constexpr Duration kCheckTimeout = std::chrono::seconds(20);

enum class Ranks {
  none,
  wished,    ///< --node-rank, where it is only a wish
  insisted,  ///< static rendezvous
};

struct Plan {
  proto::JobSettings job;
  Ranks ranks = Ranks::none;
  std::chrono::nanoseconds lease{0};
  bool leases_differ = false;  ///< some agents wish for a shorter one
  std::chrono::nanoseconds lost_timeout{0};
  std::chrono::milliseconds grace_period{0};
  std::string secret;  ///< of the service and its nodes; empty: none
  rdzv::SnapshotSettings snapshots;
  std::size_t unread_max = 0;  ///< bytes to an agent; with more its connection is ended
  Duration delay_most{0};      ///< of what is sent, while nothing is wrong
  Duration hiccup_most{0};
  Duration work{0};       ///< of a round without faults
  Duration bad_batch{0};  ///< when workers come to it
  /// When all faults end at once, and a round must form soon. None: they end one by one, each at
  /// its time.
  std::optional<Duration> heals_after;
};

/// One seed in five has workers that go on, one in six has checks, one in four an etcd, and one in
/// seven of those members of etcd with wrong clocks (27:COUNT:28); the histories of the others are
/// as they were without.
Faults draw_faults(World& world, std::uint64_t seed);
/// `faults_for`: how long there may be faults.
Plan draw_plan(World& world, const Faults& faults, Duration faults_for);

}  // namespace ddprun::sim
