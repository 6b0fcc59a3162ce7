// How a rank waits for words in shared memory to rise: a short spin, then sleep on its doorbell,
// looking now and then whether the rank that it waits for still lives.
#pragma once

#include <functional>
#include <string>

#include "trainer/comm/shm_group.hpp"

namespace ddprun::trainer {

/// Knows the group's doorbells, its abort word and its members' lives. One for each rank.
class ShmWaiter {
 public:
  /// `is_given_up`: as CommOptions has it.
  ShmWaiter(ShmGroup& group, int rank, std::function<bool()> is_given_up = {});

  /// Until `is_behind(rank)` is false for every other rank, in which case it returns done.
  /// `is_behind` reads shared words only and may become true for another rank meanwhile. A rank
  /// that is behind and is gone: aborted, for the whole group. `what` names what is waited for;
  /// `bucket` is -1 outside an all-reduce.
  CommResult until_none_is_behind(const std::function<bool(int)>& is_behind, int bucket,
                                  const char* what, Clock::time_point deadline);

  /// Wakes every rank that sleeps. To be called after raising a word that another rank may wait
  /// for.
  void ring();

  [[nodiscard]] bool aborted() const;
  /// What the group's abort says.
  [[nodiscard]] CommResult abort_result() const;
  /// Aborts the group; only the first abort counts.
  void abort(const AbortRecord& record, const std::string& reason);

 private:
  Member& member(int rank) const { return group_.members[static_cast<std::size_t>(rank)]; }
  int first_behind(const std::function<bool(int)>& is_behind) const;
  bool gone(int rank) const;
  void sleep(std::uint32_t bell, Clock::duration at_most);

  ShmGroup& group_;
  int rank_;
  int spins_;
  std::function<bool()> is_given_up_;
};

}  // namespace ddprun::trainer
