#include "base/bounded_write.hpp"

#include <time.h>

#include <cerrno>

#include "base/byte_output.hpp"

namespace ddprun {

bool write_within(int fd, std::string_view bytes, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  if (bytes.empty()) return true;
  ConsoleOutput output(fd);
  bool waited = false;
  while (true) {
    const ByteOutput::Taken taken = output.take(bytes);
    if (taken.lost + taken.unwanted > 0) return false;
    bytes.remove_prefix(taken.written);
    if (bytes.empty()) return true;
    if (waited && taken.written == 0) {
      // A terminal counts room for a newline's two bytes only when it writes them.
      const timespec pause{0, 5'000'000};
      nanosleep(&pause, nullptr);
    }
    waited = output.wait_until(deadline);
    if (!waited || std::chrono::steady_clock::now() >= deadline) {
      errno = ETIMEDOUT;
      return false;
    }
  }
}

}  // namespace ddprun
