// Chooses and sets up the communicator of this rank: alone, or over memory shared with the other
// ranks of the host.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "trainer/comm/communicator.hpp"
#include "trainer/comm/exchange.hpp"
#include "trainer/compute/device.hpp"

namespace ddprun::trainer {

/// Where a rank stands inside a call. Fault tests stop or kill a rank exactly there.
enum class CommPhase {
  before_start,  ///< start() was called, nothing is announced yet
  after_ready,   ///< this rank's part is announced
  in_slice,      ///< half of a piece of the sum is written
  after_slice,   ///< a piece is summed and announced
  in_broadcast,  ///< one chunk of a broadcast is underway
  in_barrier,    ///< the barrier is entered, nothing is announced yet
};

struct CommOptions {
  int rank = 0;
  int world_size = 1;
  int shards = 1;                   ///< V, the same on every rank; at least world_size
  SumOrder order = SumOrder::tree;  ///< chain: only over GPUs
  std::size_t arena_floats = 0;     ///< Model::arena_size(), the same on every rank
  /// Prefix of the keys in the exchange; distinct for every round and restart.
  std::string group = "comm/0";
  /// For fault tests; not called when empty.
  std::function<void(CommPhase, int bucket)> on_phase = {};
  /// The arenas are in its memory; null: the host's. Several ranks with one need NCCL
  /// (trainer/nccl).
  Device* device = nullptr;
};

struct CommSetup {
  std::unique_ptr<Communicator> communicator{};  ///< null unless result.ok()
  CommResult result{};                           ///< what went wrong; `detail` says what to do
  /// These options can never work (several hosts, unlike configurations): a usage error.
  bool refused = false;
  std::string how{};  ///< over NCCL: "NCCL 2.28.9"
};

/// Sets up this rank's communicator; returns when every rank has joined, or by `deadline`. A world
/// of one needs no exchange (it may be null). Nothing is created outside memory: it is gone with
/// the processes, however they end.
CommSetup make_communicator(const CommOptions& options, Exchange* exchange,
                            Clock::time_point deadline);

}  // namespace ddprun::trainer
