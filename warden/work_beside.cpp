#include "warden/work_beside.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace ddprun::warden {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLimit{1};
constexpr std::chrono::microseconds kLookAgainAfter{500};

}  // namespace

WorkBeside::WorkBeside(const std::function<void()>& work) : pid_(fork()) {
  if (pid_ != 0) return;
  prctl(PR_SET_NAME, "ddp-tidy");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  work();
  _exit(0);
}

void WorkBeside::wait() const {
  const auto limit = Clock::now() + kLimit;
  while (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0 && Clock::now() < limit)
    std::this_thread::sleep_for(kLookAgainAfter);
}

}  // namespace ddprun::warden
