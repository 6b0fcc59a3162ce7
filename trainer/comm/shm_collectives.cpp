// The small collectives over the ranks' staging memory, in rounds of at most kStagingHalfBytes.
#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "trainer/comm/shm_communicator.hpp"

namespace ddprun::trainer {

CommResult ShmCommunicator::barrier(Clock::time_point deadline) {
  if (waiter_.aborted()) return waiter_.abort_result();
  phase(CommPhase::in_barrier);
  return enter_barrier(deadline);
}

CommResult ShmCommunicator::enter_barrier(Clock::time_point deadline) {
  const std::uint64_t round = ++round_;
  own().consumed.store(round);
  own().posted.store(round);
  waiter_.ring();
  const auto is_behind = [&](int rank) { return member(rank).block->posted.load() < round; };
  return waiter_.until_none_is_behind(is_behind, -1, "a barrier", deadline);
}

/// Until the half of this rank's staging memory that `round` uses is needed by no rank.
CommResult ShmCommunicator::await_staging(std::uint64_t round, Clock::time_point deadline) {
  const auto is_behind = [&](int rank) { return member(rank).block->consumed.load() + 2 < round; };
  return waiter_.until_none_is_behind(is_behind, -1, "reading what was sent to it", deadline);
}

CommResult ShmCommunicator::broadcast(std::span<std::byte> bytes, int root,
                                      Clock::time_point deadline) {
  DDPRUN_ASSERT(0 <= root && root < options_.world_size, "the root is a rank");
  if (waiter_.aborted()) return waiter_.abort_result();
  for (std::size_t at = 0; at < bytes.size(); at += kStagingHalfBytes) {
    const std::span<std::byte> piece =
        bytes.subspan(at, std::min(kStagingHalfBytes, bytes.size() - at));
    const std::uint64_t round = ++round_;
    if (root == options_.rank) {
      CommResult result = await_staging(round, deadline);
      if (!result.ok()) return result;
      std::memcpy(staging(root, round), piece.data(), piece.size());
      phase(CommPhase::in_broadcast);
      own().consumed.store(round);
      own().posted.store(round);
    } else {
      // Every rank posts every round, so that `posted` says where it is.
      own().posted.store(round);
      const auto is_behind = [&](int rank) {
        return rank == root && member(rank).block->posted.load() < round;
      };
      CommResult result = waiter_.until_none_is_behind(is_behind, -1, "a broadcast", deadline);
      if (!result.ok()) return result;
      std::memcpy(piece.data(), staging(root, round), piece.size());
      phase(CommPhase::in_broadcast);
      own().consumed.store(round);
    }
    waiter_.ring();
  }
  return {};
}

CommResult ShmCommunicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                                       Clock::time_point deadline) {
  DDPRUN_ASSERT(all.size() == mine.size() * static_cast<std::size_t>(options_.world_size),
                "one piece for each rank");
  if (waiter_.aborted()) return waiter_.abort_result();
  for (std::size_t at = 0; at < mine.size(); at += kStagingHalfBytes) {
    const std::size_t bytes = std::min(kStagingHalfBytes, mine.size() - at);
    const std::uint64_t round = ++round_;
    CommResult result = await_staging(round, deadline);
    if (!result.ok()) return result;
    std::memcpy(staging(options_.rank, round), mine.data() + at, bytes);
    own().posted.store(round);
    waiter_.ring();
    const auto is_behind = [&](int rank) { return member(rank).block->posted.load() < round; };
    result = waiter_.until_none_is_behind(is_behind, -1, "an all-gather", deadline);
    if (!result.ok()) return result;
    for (int rank = 0; rank < options_.world_size; ++rank) {
      const std::size_t offset = static_cast<std::size_t>(rank) * mine.size() + at;
      std::memcpy(all.data() + offset, staging(rank, round), bytes);
    }
    own().consumed.store(round);
    waiter_.ring();
  }
  return {};
}

}  // namespace ddprun::trainer
