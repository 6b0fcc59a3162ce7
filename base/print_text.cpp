#include "base/print_text.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace ddprun {

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
