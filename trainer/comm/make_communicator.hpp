// Chooses and sets up the communicator of this rank: alone (a world of one, where every sum is
// there already), or over memory shared with the other ranks of the host.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

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
  /// Ranks of one host leave notes (Communicator::has_notes()); the same on every rank. It costs a
  /// meeting in each step.
  bool keeps_notes = true;
  /// Looked at now and then by waits for ranks of this host, which end with CommStatus::aborted
  /// once it is true; empty: it never is.
  std::function<bool()> is_given_up = {};
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

class LocalCommunicator : public Communicator {
 public:
  /// In the host's memory.
  explicit LocalCommunicator(std::size_t arena_floats);
  /// `arena`: a device's, which outlives the communicator.
  explicit LocalCommunicator(DeviceMemory arena, SumOrder order = SumOrder::tree)
      : memory_(std::move(arena)), arena_(memory_.as<float>()), order_(order) {}
  ~LocalCommunicator() override = default;
  LocalCommunicator(const LocalCommunicator&) = delete;
  LocalCommunicator& operator=(const LocalCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int world_size() const override { return 1; }
  [[nodiscard]] SumOrder order() const override { return order_; }
  [[nodiscard]] std::span<float> arena(int slot) override;
  Ticket start(int bucket, Range range) override;
  void progress() override {}
  CommResult finish(Ticket ticket, Clock::time_point deadline) override;
  CommResult broadcast(std::span<std::byte> bytes, int root, Clock::time_point deadline) override;
  CommResult all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                        Clock::time_point deadline) override;
  CommResult barrier(Clock::time_point deadline) override;
  void abort(const std::string& reason) override;

 private:
  CommResult result();

  DeviceMemory memory_;
  std::span<float> arena_;
  SumOrder order_;
  Ticket last_started_ = 0;
  std::mutex mutex_;  // abort() may come from another thread
  bool aborted_ = false;
  std::string reason_;
};

}  // namespace ddprun::trainer
