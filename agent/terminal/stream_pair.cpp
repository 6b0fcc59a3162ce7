#include "agent/terminal/stream_pair.hpp"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "agent/terminal/terminal_size.hpp"
#include "base/open_file.hpp"

namespace ddprun::agent {

Result<StreamPair> make_stream_pipe() {
  auto pipe = make_pipe();
  if (!pipe) return pipe.error();
  StreamPair pair{std::move(pipe->read), std::move(pipe->write)};
  fcntl(pair.ours.get(), F_SETFL,
        O_NONBLOCK);  // of our end only: the worker's end has a description of its own
  return pair;
}

Result<StreamPair> make_pseudo_terminal(int like, int prefix_columns) {
  StreamPair pair;
  pair.ours.reset(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!pair.ours || grantpt(pair.ours.get()) != 0 || unlockpt(pair.ours.get()) != 0)
    return last_system_error();
  char name[64];
  if (ptsname_r(pair.ours.get(), name, sizeof name) != 0) return last_system_error();
  pair.workers.reset(open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!pair.workers) return last_system_error();
  termios settings{};
  if (tcgetattr(like, &settings) == 0 || tcgetattr(pair.workers.get(), &settings) == 0) {
    // Newlines reach us as the worker wrote them; the real terminal does its own translation.
    settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    settings.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    tcsetattr(pair.workers.get(), TCSANOW, &settings);
  }
  follow_size(pair.workers.get(), like, prefix_columns);
  fcntl(pair.ours.get(), F_SETFL, O_NONBLOCK);
  return pair;
}

}  // namespace ddprun::agent
