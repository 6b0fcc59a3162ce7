#include "base/start_thread.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

namespace ddprun {
namespace {

/// A thread inherits the mask of the one that starts it.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Said in full: a thread can be made of anything, also of an error.
Result<std::thread> refused(int error) {
  return Result<std::thread>(boost::system::in_place_error,
                             ErrorCode(error, boost::system::system_category()));
}

}  // namespace

Result<std::thread> start_thread(const char* name, std::function<void()> body) {
  const AllSignalsBlocked blocked;
  try {
    return std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      body();
    });
  } catch (const std::system_error& error) {
    return refused(error.code().value());
  } catch (const std::bad_alloc&) {
    return refused(ENOMEM);
  }
}

std::string why_no_thread(const ErrorCode& error) {
  const bool limit = error.value() == EAGAIN;
  return fmt::format("no thread can be started: {}{}", error.message(),
                     limit ? "; raise the limit of processes (ulimit -u, pids.max)" : "");
}

}  // namespace ddprun
