#include "base/program_main.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include <boost/system/system_error.hpp>

#include "base/no_descriptor.hpp"

namespace ddprun {

bool ensure_standard_descriptors() {
  const bool has_stdout = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd > 2) close(fd);
    if (fd >= 0 && fd <= 2) fcntl(fd, F_SETFD, 0);
  } while (fd >= 0 && fd <= 2);
  return has_stdout;
}

namespace {

constexpr int kSayLimitMs = 500;

const char* program_name = "";
int exit_code_then = 1;

// Nothing here may need memory: its lack is the likeliest reason to be here.
void say(const char* what, const char* remedy) {
  char line[512];
  std::snprintf(line, sizeof line - 1, "%s: %s%s", program_name, what, remedy);
  const std::size_t length = std::strlen(line);
  line[length] = '\n';
  // Room for a line this short is all that a pipe's POLLOUT promises; no reader holds us longer.
  pollfd stderr_room{STDERR_FILENO, POLLOUT, 0};
  if (poll(&stderr_room, 1, kSayLimitMs) == 1) [[maybe_unused]]
    const auto written = write(STDERR_FILENO, line, length + 1);
}

[[noreturn]] void end_now() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
    say("internal error", "");
  } catch (const std::bad_alloc&) {
    say("out of memory", "; raise its limit (ulimit -v, the container's memory)");
  } catch (const boost::system::system_error& error) {
    // Its text may name a line of a library's header.
    if (no_descriptor(error.code()))
      say(why_no_descriptor(error.code()).c_str(), "");
    else
      say("internal error: ", error.code().message().c_str());
  } catch (const std::exception& error) {
    say("internal error: ", error.what());
  } catch (...) {
    say("internal error", "");
  }
  _exit(exit_code_then);
}

}  // namespace

void end_on_uncaught_exception(const char* program, int exit_code) {
  program_name = program;
  exit_code_then = exit_code;
  std::set_terminate(end_now);
}

bool print_text(const char* program, std::string_view text, bool has_stdout) {
  errno = EBADF;
  const bool written =
      has_stdout && std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return true;
  if (errno == EPIPE) return true;  // where SIGPIPE is ignored; else it has ended us
  std::fprintf(stderr, "%s: cannot write to stdout: %s\n", program, std::strerror(errno));
  return false;
}

}  // namespace ddprun
