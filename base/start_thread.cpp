#include "base/start_thread.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace ddprun {

Result<std::thread> start_thread(const char* name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  ErrorCode failed;
  try {
    thread = std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      body();
    });
  } catch (const std::system_error& refused) {
    failed = ErrorCode(refused.code().value(), boost::system::system_category());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // Said in full: a thread can be made of anything, also of an error.
  if (failed) return Result<std::thread>(boost::system::in_place_error, failed);
  return thread;
}

std::string why_no_thread(const ErrorCode& error) {
  const bool limit = error.value() == EAGAIN;
  return fmt::format("no thread can be started: {}{}", error.message(),
                     limit ? "; raise the limit of processes (ulimit -u, pids.max)" : "");
}

}  // namespace ddprun
