#include "trainer/comm/make_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.hpp"
#include "proto/error.hpp"
#include "trainer/comm/exchange.hpp"
#include "trainer/comm/shm_communicator.hpp"
#include "trainer/compute/buffer.hpp"

namespace ddprun::trainer {
namespace {

CommSetup refuse(std::string detail) {
  CommSetup setup;
  setup.result = {CommStatus::aborted, -1, -1, std::move(detail)};
  setup.refused = true;
  return setup;
}

}  // namespace

CommResult exchange_failure(ErrorCode error, int rank, const std::string& what) {
  if (error == proto::Errc::timed_out) {
    return {CommStatus::timed_out, rank, -1,
            fmt::format("{}: not there by the deadline; is that rank running?", what)};
  }
  return {CommStatus::aborted, rank, -1, fmt::format("{}: {}", what, error.message())};
}

CommSetup make_communicator(const CommOptions& options, Exchange* exchange,
                            Clock::time_point deadline) {
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    return refuse(
        fmt::format("rank {} is not within world size {}: set RANK and WORLD_SIZE, or neither",
                    options.rank, options.world_size));
  }
  if (options.world_size > kShmRanksMax) {
    return refuse(fmt::format(
        "world size {}: at most {} ranks run on one host, and several hosts are not in this "
        "version",
        options.world_size, kShmRanksMax));
  }
  if (options.shards < options.world_size) {
    return refuse(fmt::format(
        "{} shards for {} ranks: every rank needs at least one; use fewer workers or more shards",
        options.shards, options.world_size));
  }
  CommSetup setup;
  if (options.world_size == 1) {
    setup.communicator =
        options.device == nullptr
            ? std::make_unique<LocalCommunicator>(options.arena_floats)
            : std::make_unique<LocalCommunicator>(
                  options.device->allocate(options.arena_floats * sizeof(float)), options.order);
    return setup;
  }
  if (exchange == nullptr) {
    return refuse(
        fmt::format("world size {} needs a store where ranks meet: set MASTER_ADDR and MASTER_PORT",
                    options.world_size));
  }
  GroupSetup joined = join_group(options, *exchange, deadline);
  setup.result = std::move(joined.result);
  setup.refused = joined.refused;
  if (!setup.result.ok()) return setup;
  auto communicator = std::make_unique<ShmCommunicator>(options, std::move(joined.group));
  // The phases are for faults in the calls of the loop, and this barrier is none of them.
  setup.result = communicator->meet(deadline);
  if (setup.result.ok()) setup.communicator = std::move(communicator);
  return setup;
}

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
