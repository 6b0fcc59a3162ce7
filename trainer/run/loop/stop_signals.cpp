#include "trainer/run/loop/stop_signals.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <utility>

#include "base/signals.hpp"
#include "base/start_thread.hpp"
#include "trainer/run/exit_codes.hpp"
#include "worker/ddprun_progress.h"

namespace ddprun::trainer {

StopAnswer answer_to_signal(const StopSituation& situation) {
  // Collectives may never end, and the next round waits for this process.
  if (situation.reason == DDPRUN_STOP_NOW) return StopAnswer::end_now;
  if (!situation.is_training) return StopAnswer::end_now;
  if (!situation.asked_at) return StopAnswer::ask;
  // A scheduler signals all processes of a job, and ddprun passes its signal on, once.
  if (situation.reason == DDPRUN_STOP_SAVE && !situation.has_ddprun_asked)
    return StopAnswer::ignore;
  return situation.now - *situation.asked_at < kSameRequestWithin ? StopAnswer::ignore
                                                                  : StopAnswer::end_now;
}

StopSignals::StopSignals() {
  sigemptyset(&waited_);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP})
    if (!signal_ignored(signal)) sigaddset(&waited_, signal);
  signals_ = UniqueFd(::signalfd(-1, &waited_, SFD_CLOEXEC | SFD_NONBLOCK));
  end_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  pthread_sigmask(SIG_BLOCK, &waited_, &before_);
  if (signals_ && end_) {
    if (auto thread = start_thread("signals", [this] { wait_for_signals(); }))
      thread_ = std::move(*thread);
  }
  if (!thread_.joinable()) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

StopSignals::~StopSignals() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(end_.get(), &one, sizeof one));
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignals::begin_training() {
  const std::lock_guard lock(mutex_);
  is_training_ = true;
}

void StopSignals::set_clean_up(std::function<void()> clean_up) {
  const std::lock_guard lock(mutex_);
  clean_up_ = std::move(clean_up);
}

void StopSignals::wait_for_signals() {
  while (true) {
    pollfd waited[] = {{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}};
    if (::poll(waited, 2, -1) < 0) continue;
    if (waited[1].revents != 0) return;
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) == sizeof info)
      handle_signal(static_cast<int>(info.ssi_signo));
  }
}

void StopSignals::handle_signal(int signal) {
  const std::lock_guard lock(mutex_);
  const StopSituation situation{.is_training = is_training_,
                                .reason = ddprun_progress_stop(),
                                .asked_at = asked_at_,
                                .has_ddprun_asked = has_ddprun_asked_,
                                .now = std::chrono::steady_clock::now()};
  has_ddprun_asked_ = has_ddprun_asked_ || situation.reason == DDPRUN_STOP_SAVE;
  switch (answer_to_signal(situation)) {
    case StopAnswer::end_now:
      if (!is_training_ && clean_up_) clean_up_();
      end_now(signal);
    case StopAnswer::ask:
      asked_at_ = situation.now;
      asked_.store(signal, std::memory_order_relaxed);
      return;
    case StopAnswer::ignore:
      return;
  }
}

/// As if the process knew nothing of the signal, so that launchers and shells see that it came.
void StopSignals::end_now(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(signal);
  // The first process of a container does not die of its own signals.
  ::_exit(kExitSignalBase + signal);
}

}  // namespace ddprun::trainer
