// The nodes of a job: in which phase each one is, which ranks they ask for, and which of them take
// part in a round. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/job_settings.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::rdzv {

/// "node2" before "node10": runs of digits compare as numbers.
bool natural_less(std::string_view a, std::string_view b);

/// What is kept of a join: little, for there may be many.
struct Node {
  std::string name;
  std::string role;
  int local_world_size = 0;
  std::optional<int> requested_group_rank;
  bool insists_on_rank = false;
  bool wants_report = false;
  std::uint16_t store_port = 0;
  std::string store_addr;
  int store_clients_max = 0;
  bool checks_first = false;
  std::vector<proto::KeptWorker> kept = {};
  bool knows_kept = false;
};

/// A node's own numbers in a round.
struct Seat {
  int group_rank = 0;
  int first_rank = 0;
  int first_role_rank = 0;
  int role_world_size = 1;
  std::vector<int> keep = {};  ///< local ranks of workers that go on from the round before
};

/// What a snapshot has of a node.
struct NodeSnapshot {
  Node node;
  std::uint64_t order = 0;   ///< of joining
  std::optional<Seat> seat;  ///< in the round that is out; none: it waits for the next one
  bool is_checked = true;    ///< it needs no check before the next round
  int failed_rounds = 0;     ///< in a row: each failed on this node
  proto::RoundNumber stepped_back = 0;  ///< since this round, for its failures; 0: it has not
};

/// What a node does in its job.
enum class Phase {
  waiting,   ///< for the next round
  checking,  ///< it takes part in no round before it has passed its check
  active,    ///< in the round that is out; its workers run, as far as is known
  done,      ///< in the round that is out; its workers have succeeded
  gone,      ///< after that it was lost or left: nothing more is expected of it
  stopped,   ///< nothing of the last round is left on it; it will join again
};
inline constexpr int kPhases = 6;

struct Member : NodeSnapshot {
  Phase phase = Phase::waiting;
  std::optional<proto::Leave> leaving;  ///< it takes part in no other round
  std::uint64_t check = 0;              ///< checking: the number of the Check
  bool is_chosen = false;               ///< checking: the next round waits for it

  [[nodiscard]] bool in_round() const { return phase == Phase::active || phase == Phase::done; }
};

class Roster {
 public:
  using Members = std::map<proto::AgentId, Member>;
  using Entry = Members::value_type;
  /// So many rounds in a row that failed on one node, and it gives way to a spare.
  static constexpr int kFailedRoundsMax = 2;
  /// At most this many waiting nodes are notified of others.
  static constexpr std::size_t kNotifiedMax = 64;

  explicit Roster(const proto::JobSettings& settings)
      : max_nodes_(settings.max_nodes), failing_step_back_(settings.failing_nodes_step_back) {}

  [[nodiscard]] const Members& members() const { return members_; }
  [[nodiscard]] Members& members() { return members_; }
  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] int count(Phase phase) const { return counts_[static_cast<std::size_t>(phase)]; }
  /// Null: the job does not have it.
  [[nodiscard]] Entry* find(const proto::AgentId& agent);
  [[nodiscard]] const Entry* find(const proto::AgentId& agent) const;

  /// A node that is new, or there again, waits for the next round. `order`: of joining.
  Entry& join(const proto::AgentId& agent, const proto::Join& join, std::uint64_t order);
  /// A node that is there already stays as it is.
  void restore(const proto::AgentId& agent, const NodeSnapshot& node);
  void set_phase(Member& member, Phase phase);
  void erase(const Entry& entry);
  void erase_gone();

  /// The node that insists on this rank; null: none does.
  [[nodiscard]] const Entry* holder(int rank) const;
  /// Another node that asks for the rank which this one asks for; null: none does.
  [[nodiscard]] const Entry* with_same_rank(const Entry& entry) const;
  /// Whether no other node that is there has its name.
  [[nodiscard]] bool has_own_name(const Entry& entry) const;
  /// The name of its node; that of its agent, which begins with it, where several agents of the
  /// job have one name.
  [[nodiscard]] std::string label(const Entry& entry) const;
  /// Labels of the nodes in this phase; none, where they are too many to be named.
  [[nodiscard]] std::vector<std::string> names_of(Phase phase) const;
  /// Agents of nodes that wait: the first kNotifiedMax.
  [[nodiscard]] std::vector<proto::AgentId> notified() const;
  /// The nodes that are expected back, or the ranks that no node has yet.
  [[nodiscard]] std::vector<std::string> missing() const;

  /// The nodes of the next round, by group rank. A node of the last round comes before a newcomer,
  /// then the rank that was asked for, the place in the last round, and the name decide. Spares
  /// that have stepped back come after the others, the newest last; a node that gives way, after
  /// them.
  [[nodiscard]] std::vector<Entry*> seated();
  /// Whether a spare takes the place of a node on which round after round fails. A node that
  /// insists on its rank leaves a place that no other node could take.
  [[nodiscard]] bool gives_way(const Member& member) const;
  /// `agent`: where the round failed; empty: it ended otherwise, or that is open. Both end each
  /// row.
  void count_failed_round(const proto::AgentId& agent);

 private:
  void release_rank(const Entry& entry);

  int max_nodes_;
  bool failing_step_back_;
  Members members_;
  std::array<int, kPhases> counts_{};                     // of members_, by phase
  std::map<int, proto::AgentId> rank_holders_;            // of the ranks that are insisted on
  std::set<std::pair<int, proto::AgentId>> rank_wishes_;  // of members, insisted on or not
};

}  // namespace ddprun::rdzv
