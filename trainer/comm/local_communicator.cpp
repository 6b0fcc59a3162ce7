#include "trainer/comm/local_communicator.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "trainer/compute/buffer.hpp"

namespace ddprun::trainer {

LocalCommunicator::LocalCommunicator(std::size_t arena_floats)
    : LocalCommunicator(DeviceMemory(allocate_memory(arena_floats * sizeof(float)),
                                     arena_floats * sizeof(float), free_memory)) {
  std::fill(arena_.begin(), arena_.end(), 0.0F);
}

std::span<float> LocalCommunicator::arena(int slot) {
  DDPRUN_ASSERT(slot == 0, "a world of one has one local node");
  return arena_;
}

Ticket LocalCommunicator::start(int /*bucket*/, Range range) {
  DDPRUN_ASSERT(range.begin <= range.end && range.end <= arena_.size(), "a range of the arena");
  return ++last_started_;
}

CommResult LocalCommunicator::finish(Ticket ticket, Clock::time_point /*deadline*/) {
  DDPRUN_ASSERT(ticket <= last_started_, "a ticket that start() returned");
  return result();
}

CommResult LocalCommunicator::broadcast(std::span<std::byte> /*bytes*/, int root,
                                        Clock::time_point /*deadline*/) {
  DDPRUN_ASSERT(root == 0, "the root is a rank");
  return result();
}

CommResult LocalCommunicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                                         Clock::time_point /*deadline*/) {
  DDPRUN_ASSERT(all.size() == mine.size(), "one piece for each rank");
  std::copy(mine.begin(), mine.end(), all.begin());
  return result();
}

CommResult LocalCommunicator::barrier(Clock::time_point /*deadline*/) { return result(); }

void LocalCommunicator::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!aborted_) reason_ = reason;
  aborted_ = true;
}

CommResult LocalCommunicator::result() {
  const std::lock_guard lock(mutex_);
  if (!aborted_) return {};
  return {CommStatus::aborted, -1, -1, "aborted by rank 0: " + reason_};
}

}  // namespace ddprun::trainer
