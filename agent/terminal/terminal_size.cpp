#include "agent/terminal/terminal_size.hpp"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/byte_output.hpp"

namespace ddprun::agent {

namespace {

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

/// A cell of Jupyter, Colab or Kaggle gives programs a terminal with a size and a TERM, but shows
/// what they print on a page, which knows colours and carriage returns only.
bool is_notebook_cell() {
  return is_set("JPY_PARENT_PID") || is_set("COLAB_RELEASE_TAG") ||
         is_set("KAGGLE_KERNEL_RUN_TYPE");
}

}  // namespace

TerminalSize drawing_size(int fd) {
  const bool moves = is_set("TERM") && std::string_view(std::getenv("TERM")) != "dumb";
  winsize size{};
  if (!moves || is_notebook_cell() || isatty(fd) != 1 || ioctl(fd, TIOCGWINSZ, &size) != 0)
    return {};
  return {size.ws_col, size.ws_row};
}

bool is_ours_alone(int fd, int other) {
  struct stat status {};
  return same_output(fd, other) || fstat(other, &status) != 0 ||
         !(S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

bool in_background(int fd) {
  // 0: the shell is outside of our PID namespace, and nothing is known. Our parent is the warden,
  // which has the job's process group; ours is another one.
  const pid_t foreground = tcgetpgrp(fd);
  return foreground > 0 && foreground != getpgrp() && foreground != getpgid(getppid());
}

int columns_of(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int follow_size(int pty, int like, int prefix_columns) {
  winsize size{};
  if (ioctl(like, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
  const int columns = std::max(kWorkerColumnsMin, size.ws_col - prefix_columns);
  size.ws_col = static_cast<unsigned short>(columns);
  ioctl(pty, TIOCSWINSZ, &size);
  return columns;
}

}  // namespace ddprun::agent
