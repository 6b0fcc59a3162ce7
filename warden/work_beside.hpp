// Work in a process of its own, so that the warden has time for signals and the fence however long
// it takes.
#pragma once

#include <sys/types.h>

#include <functional>

namespace ddprun::warden {

class WorkBeside {
 public:
  /// None.
  WorkBeside() = default;
  /// Forks. Where that fails the work is left to another job. The process dies with this one.
  explicit WorkBeside(const std::function<void()>& work);

  /// Waits for its end, 1 s at most: a short job would leave it no time, and what it removes would
  /// never go.
  void wait() const;

 private:
  pid_t pid_ = -1;
};

}  // namespace ddprun::warden
