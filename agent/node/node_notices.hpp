// The lines by which a node tells its user how the job goes. Pure: facts in, a sentence out.
#pragma once

#include <chrono>
#include <string>

#include "agent/node/node_events.hpp"
#include "agent/node/node_facts.hpp"

namespace ddprun::agent {

/// Why the round starts; empty: it is the job's first, or nothing has ended.
std::string why_round_line(const NodeFacts& node, const proto::Round& round);
/// Whether the first round tells where this node stands: it finds the others there, and hosts
/// reached through ssh have a launcher that knows them.
bool shows_place(const AgentConfig& config, const proto::Round& round);
/// Requires shows_place().
std::string place_line(const AgentConfig& config, const proto::Round& round);
std::string planned_restart_line(const proto::RestartPlanned& planned);
/// `is_first`: this node has had no part in a round yet.
std::string spare_line(const proto::Waiting& waiting, const std::string& run_id, bool is_first);
std::string waiting_line(const proto::Waiting& waiting, const AgentConfig& config);
std::string check_passed_line(const CheckEnded& ended);
/// `other_nodes`: there may be some.
std::string ended_workers_line(const NodeRound& round, bool other_nodes);

// Towards the end:

std::string stopping_line(int signal, std::chrono::milliseconds grace_period);
/// No worker runs here, but the other nodes are waited for.
std::string leaving_line(const NodeFacts& node, int signal);
std::string killing_line(int signal, bool again);
std::string count_down_line(const NodeRound& round, std::chrono::seconds left);
std::string grace_over_line(std::chrono::milliseconds grace_period);

}  // namespace ddprun::agent
