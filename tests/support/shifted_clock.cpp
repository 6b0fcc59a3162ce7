// Preloaded (LD_PRELOAD) into all programs of one host of a test: its wall clock is SHIFTED_CLOCK
// seconds ahead of this machine's; if SHIFTED_CLOCK_FROM names a file, only once that file exists,
// as when somebody sets the clock. All other clocks stay, and so do the times of files: as if these
// were on a file server.
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>

namespace {

bool is_set() {
  const char* file = std::getenv("SHIFTED_CLOCK_FROM");
  if (file == nullptr) return true;
  const int error = errno;
  const bool exists = access(file, F_OK) == 0;
  errno = error;
  return exists;
}

time_t shift() {
  if (!is_set()) return 0;
  const char* seconds = std::getenv("SHIFTED_CLOCK");
  return seconds != nullptr ? std::atol(seconds) : 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  // Not glibc's: this is it, by name.
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += shift();
  return result;
}

int gettimeofday(timeval* __restrict now, void* __restrict) noexcept {
  timespec exact{};
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  *now = {exact.tv_sec, exact.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* now) noexcept {
  timespec exact{};
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now != nullptr) *now = exact.tv_sec;
  return exact.tv_sec;
}

}  // extern "C"
