// The limit of open files: how many a job takes, and what is left for the store's clients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "agent/config.hpp"

namespace ddprun::agent {

/// Raises this process's limit of open files to what the system allows; gives the limit.
std::uint64_t raise_open_files_limit();

/// Whether any worker's output comes to us.
bool reads_output(const AgentConfig& config);

/// How many descriptors the agent of this job holds at once at most, with what its start and its
/// end take for a moment; those of the store's clients and those that are open now not included.
std::uint64_t open_files_needed(const AgentConfig& config);

/// What a limit means for this job. Called before its first worker is started.
struct OpenFiles {
  std::string problem;              ///< why the job can't be run; empty: it can
  std::uint64_t store_clients = 0;  ///< so many leave the agent what it needs itself
  std::uint64_t limit = 0;
};
OpenFiles open_files_for(const AgentConfig& config, std::uint64_t limit);

/// How the node that has the rendezvous shares out `store_clients`: connections that strangers
/// leave silent take nothing from the workers, nor from their store.
struct ConnectionShares {
  std::size_t newcomers = 0;        ///< without a session at the rendezvous
  std::size_t parked = 0;           ///< at its port, for the store of the next round
  std::uint64_t store_clients = 0;  ///< what is left, beside the agents, for the store that runs
};
ConnectionShares connection_shares(const AgentConfig& config, const OpenFiles& files);

/// On the node that has the rendezvous: why not all of the job's nodes can be connected at one
/// time; empty: they can.
std::string too_few_for_nodes(const AgentConfig& config, const OpenFiles& files);

}  // namespace ddprun::agent
