// Where bytes end up: our own stdout or stderr here, log files in agent/streams. Used by one thread
// at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/unique_handle.hpp"

namespace ddprun {

/// A pipe through which much goes: of a worker, or ours to our reader.
inline constexpr std::size_t kBusyPipeBytes = 1024 * 1024;

/// Any reader of a pipe may be busy for a while. A job whose reader takes nothing for longer (a
/// pager that is left open) goes on without it.
inline constexpr std::chrono::seconds kReaderStuckAfter{30};

class ByteOutput {
 public:
  /// What became of bytes: `written` were taken, `lost` will never be, the others have no
  /// reader left (`unwanted`), or have to wait.
  struct Taken {
    std::size_t written = 0;
    std::size_t lost = 0;
    std::size_t unwanted = 0;
    int error = 0;  ///< why they are lost, an errno; 0: that was said already
  };

  ByteOutput() = default;
  virtual ~ByteOutput() = default;
  ByteOutput(const ByteOutput&) = delete;
  ByteOutput& operator=(const ByteOutput&) = delete;

  /// Writes what can be written now. Some of it left: `wait` before the next try.
  virtual Taken take(std::string_view bytes) = 0;
  /// True: `take` never waits, so any thread may call it.
  virtual bool prompt() { return false; }
  /// Returns when there may be room, however long that takes.
  virtual void wait() = 0;
};

/// Whether both descriptors are the same terminal, file or pipe.
bool same_output(int a, int b);

/// A descriptor that we inherited. Its reader may stop; then only `wait` blocks, never `take`, so
/// that it is always known which bytes went out. Where `prompt` says no, `take` may block after
/// all: a file may, and what another user has made and we can't open again.
class ConsoleOutput final : public ByteOutput {
 public:
  /// `fd` is borrowed.
  explicit ConsoleOutput(int fd) : fd_(fd) {}
  Taken take(std::string_view bytes) override;
  bool prompt() override;
  void wait() override;
  /// Returns when there may be room; false: there was none by the deadline. None: no deadline.
  bool wait_until(std::optional<std::chrono::steady_clock::time_point> deadline);

 private:
  enum class Kind { unknown, own_description, socket, waiting, file };
  void look();
  void enlarge();

  int fd_;
  UniqueFd own_;  // the same pipe or terminal, with a non-blocking description of our own
  Kind kind_ = Kind::unknown;
  bool enlarged_ = false;
};

}  // namespace ddprun
