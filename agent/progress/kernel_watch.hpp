// Which worker is in one uninterruptible wait for long. Pure: what was seen at each look -> a rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun::agent {

struct KernelWait {
  int local_rank = 0;
  std::chrono::nanoseconds lasted{0};

  friend bool operator==(const KernelWait&, const KernelWait&) = default;
};

class KernelWatch {
 public:
  KernelWatch(int workers, std::chrono::nanoseconds timeout)
      : timeout_(timeout), workers_(static_cast<std::size_t>(workers)) {}

  /// `waits`, for each local rank: the number of the wait that it is in, as kernel_wait_of; none:
  /// it is in no such wait, or has ended. `elapsed` is what counts since the look before. Gives the
  /// one that has waited for longest, once that is the time-out.
  std::optional<KernelWait> look(const std::vector<std::optional<std::uint64_t>>& waits,
                                 std::chrono::nanoseconds elapsed);

 private:
  struct Watched {
    std::optional<std::uint64_t> wait;
    std::chrono::nanoseconds lasted{0};
  };

  std::chrono::nanoseconds timeout_;
  std::vector<Watched> workers_;
};

}  // namespace ddprun::agent
