#include "warden/warden_signals.hpp"

#include <algorithm>
#include <vector>

#include "base/signals.hpp"

namespace ddprun::warden {
namespace {

bool contains(const std::vector<int>& signals, int signal) {
  return std::find(signals.begin(), signals.end(), signal) != signals.end();
}

}  // namespace

bool ends_job(const machine::StopSettings& stop, int signal) {
  return contains(stop.signals, signal);
}

sigset_t watched_signals(const machine::StopSettings& stop) {
  sigset_t set;
  sigemptyset(&set);
  for (const auto* signals : {&stop.signals, &stop.forward_signals}) {
    for (const int signal : *signals) {
      if (!signal_ignored(signal)) sigaddset(&set, signal);
    }
  }
  if (!signal_ignored(SIGTSTP)) sigaddset(&set, SIGTSTP);
  for (const int signal : {SIGCHLD, SIGCONT, SIGWINCH}) sigaddset(&set, signal);
  return set;
}

void restore_others(const machine::StopSettings& stop) {
  sigset_t others;
  sigemptyset(&others);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP}) {
    if (!contains(stop.signals, signal) && !contains(stop.forward_signals, signal))
      sigaddset(&others, signal);
  }
  sigprocmask(SIG_UNBLOCK, &others, nullptr);
}

bool stop_by(int signal) {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, signal);
  raise(signal);
  sigprocmask(SIG_UNBLOCK, &stop, nullptr);  // here we stop
  sigprocmask(SIG_BLOCK, &stop, nullptr);
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1;
}

}  // namespace ddprun::warden
