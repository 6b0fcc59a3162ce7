#include "warden/supervised_child.hpp"

#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "machine/processes/spawn.hpp"

namespace ddprun::warden {

bool SupervisedChild::wait(std::span<pollfd> others, std::initializer_list<Time> times) const {
  std::vector<pollfd> ready(others.begin(), others.end());
  ready.push_back({signals_.get(), POLLIN, 0});
  Time first = deadline.next();
  for (const Time& time : times)
    if (time) first = std::min(first.value_or(Clock::time_point::max()), *time);
  timespec left{};
  if (first) {
    const std::chrono::nanoseconds until = std::max<Clock::duration>(*first - Clock::now(), {});
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(until);
    left = {seconds.count(), static_cast<long>((until - seconds).count())};
  }
  const bool waited =
      ppoll(ready.data(), ready.size(), first ? &left : nullptr, nullptr) >= 0 || errno == EINTR;
  std::copy_n(ready.begin(), others.size(), others.begin());
  return waited;
}

std::vector<int> SupervisedChild::take_signals() const {
  std::vector<int> came;
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo != SIGCHLD) came.push_back(static_cast<int>(info.ssi_signo));
  }
  // The kernel gives the waiting signal with the lowest number first, and that may be SIGHUP;
  // SIGTERM comes first here, because workers know it as the wish that they end.
  std::stable_partition(came.begin(), came.end(), [](int signal) { return signal == SIGTERM; });
  return came;
}

bool SupervisedChild::look_at_state() {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WCONTINUED | WNOHANG) != 0 ||
      info.si_pid != pid_)
    return false;
  is_stopped_ = info.si_code == CLD_STOPPED;
  is_stopped_ ? deadline.stopped(Clock::now()) : deadline.continued();
  return true;
}

std::optional<ExitStatus> SupervisedChild::take_exit() const {
  const auto reaped = machine::reap(pid_);
  return reaped ? std::optional(reaped->exit) : std::nullopt;
}

}  // namespace ddprun::warden
