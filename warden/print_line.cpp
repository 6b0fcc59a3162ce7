#include "warden/print_line.hpp"

#include <unistd.h>

#include <chrono>
#include <optional>

#include "base/bounded_write.hpp"
#include "base/printable.hpp"

namespace ddprun::warden {
namespace {

constexpr std::chrono::milliseconds kReaderLimit{500};

}  // namespace

void print_line(const std::string& line) {
  // A progress bar of a dead agent may stand at the cursor.
  const std::string start = line_start(STDERR_FILENO, std::nullopt);
  write_within(STDERR_FILENO, start + "ddprun: " + printable(line) + "\n", kReaderLimit);
}

}  // namespace ddprun::warden
