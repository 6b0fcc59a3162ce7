// The communicator of ranks on one host without GPUs: gradients live in shared memory and are
// summed where they are. The protocol is in shm_layout.hpp.
#pragma once

#include <vector>

#include "trainer/comm/make_communicator.hpp"
#include "trainer/comm/shm_group.hpp"
#include "trainer/comm/shm_waiter.hpp"
#include "trainer/comm/sum_plan.hpp"

namespace ddprun::trainer {

/// The sums that one rank takes part in. Options, group and waiter outlive it.
class ShmSums {
 public:
  ShmSums(const CommOptions& options, ShmGroup& group, ShmWaiter& waiter);

  // As Communicator has them.
  Ticket start(int bucket, Range range);
  void progress();
  CommResult finish(Ticket ticket, Clock::time_point deadline);

 private:
  struct Started {
    int bucket = -1;
    Chunks chunks;
  };

  Started& started(Ticket ticket) { return started_[ticket % kStartedMax]; }
  Word64& chunk_word(Ticket ticket, int chunk);
  [[nodiscard]] Ticket ready_everywhere() const;
  bool all_chunks_done(Ticket ticket);
  void advance_complete();
  CommResult wait_for(Ticket ticket, Clock::time_point deadline);
  void sum_own_share();
  void sum_unclaimed(Ticket up_to);
  void try_chunk(Ticket ticket, int chunk);
  void sum_range(Range range);
  void phase(CommPhase at, int bucket);

  const CommOptions& options_;
  ShmGroup& group_;
  ShmWaiter& waiter_;
  SumPlan plan_;
  std::vector<const float*> inputs_;  // in the plan's order
  std::vector<float*> outputs_;       // slot 0 of every rank
  std::vector<float> scratch_;

  std::vector<Started> started_;  // ring, by ticket
  Ticket last_started_ = 0;
  Ticket own_share_ = 0;  // up to here this rank's share of the chunks is claimed
  Ticket complete_ = 0;   // up to here all chunks are done
};

/// Made by make_communicator().
class ShmCommunicator : public Communicator {
 public:
  ShmCommunicator(CommOptions options, ShmGroup group);
  /// Tells the others that this rank takes part no more; calls of theirs that still need it return
  /// aborted.
  ~ShmCommunicator() override;
  ShmCommunicator(const ShmCommunicator&) = delete;
  ShmCommunicator& operator=(const ShmCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return options_.rank; }
  [[nodiscard]] int world_size() const override { return options_.world_size; }
  [[nodiscard]] std::span<float> arena(int slot) override;
  [[nodiscard]] std::size_t shared_arena_bytes() const override;
  Ticket start(int bucket, Range range) override { return sums_.start(bucket, range); }
  void progress() override { sums_.progress(); }
  CommResult finish(Ticket ticket, Clock::time_point deadline) override {
    return sums_.finish(ticket, deadline);
  }
  CommResult broadcast(std::span<std::byte> bytes, int root, Clock::time_point deadline) override;
  CommResult all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                        Clock::time_point deadline) override;
  CommResult barrier(Clock::time_point deadline) override;
  void abort(const std::string& reason) override;
  [[nodiscard]] bool has_notes() const override { return options_.keeps_notes; }
  void leave_note(std::uint64_t number, std::span<const std::byte> note) override;
  [[nodiscard]] bool read_note(int rank, std::uint64_t number,
                               std::span<std::byte> note) const override;

  /// The first barrier: afterwards every rank has mapped every segment, and the descriptors are
  /// closed.
  CommResult meet(Clock::time_point deadline);

 private:
  Member& member(int rank) { return group_.members[static_cast<std::size_t>(rank)]; }
  RankBlock& own() { return *member(options_.rank).block; }
  void phase(CommPhase at);
  CommResult enter_barrier(Clock::time_point deadline);
  CommResult await_staging(std::uint64_t round, Clock::time_point deadline);
  std::byte* staging(int rank, std::uint64_t round) {
    return member(rank).staging + (round % 2) * kStagingHalfBytes;
  }

  CommOptions options_;
  ShmGroup group_;
  ShmWaiter waiter_;
  ShmSums sums_;
  std::uint64_t round_ = 0;  // of the collectives
};

}  // namespace ddprun::trainer
