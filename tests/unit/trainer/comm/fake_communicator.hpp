// A group of ranks inside one process with a seed as scheduler: it decides which rank runs next,
// how late an announcement is seen, in which pieces and order sums appear, and when the group is
// aborted. For tests of what uses a Communicator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/comm/communicator.hpp"

namespace ddprun::trainer {

struct FakeSettings {
  int world_size = 2;
  int shards = 2;
  std::size_t arena_floats = 0;
  std::uint32_t seed = 1;
  int abort_after_events = -1;  ///< the group is aborted at this event; -1: never
  int abort_rank = -1;          ///< the rank that it is blamed on
};

/// Runs one body for each rank, only one of them at a time, switching inside Communicator calls as
/// the seed says: the same seed gives the same history. Deadlines are virtual: a wait times out
/// when nothing can happen any more.
class FakeGroup {
 public:
  explicit FakeGroup(FakeSettings settings);
  ~FakeGroup();
  FakeGroup(const FakeGroup&) = delete;
  FakeGroup& operator=(const FakeGroup&) = delete;

  /// Returns when every body has returned. Bodies do not throw.
  void run(const std::function<void(Communicator&)>& body);

  /// What was done against the rules of Communicator: another range or bucket than the other ranks,
  /// a range changed while its sum was under way, more than kStartedMax started.
  [[nodiscard]] const std::vector<std::string>& mistakes() const;
  /// How many things have happened: announcements seen, pieces summed, completions seen.
  [[nodiscard]] int events() const;

 private:
  class Rank;
  class Scheduler;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace ddprun::trainer
