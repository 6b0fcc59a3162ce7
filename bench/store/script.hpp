// What one simulated client says, step by step. The generator plays a script on thousands of
// connections at once and knows nothing of what the bytes mean.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::bench {

/// One thing that a client sends, and how much comes back before its next step.
struct Message {
  /// What the floor does with it. A real store finds out from the bytes.
  enum class Kind : std::uint8_t {
    answered,  ///< gets `reply_bytes` at once
    held,      ///< gets one byte when a client sends a `releasing` one, or at once after that
    releasing,
  };
  std::string bytes;              ///< empty: sends nothing, only waits for `reply_bytes`
  std::uint64_t reply_bytes = 0;  ///< 0: the next step follows at once
  Kind kind = Kind::answered;
};

class Script {
 public:
  Script() = default;
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  virtual ~Script() = default;

  /// Fills `message` (given empty) with the `step`-th thing, from 0, that `client` says. False: it
  /// has nothing more to say. Called from several threads.
  virtual bool next(std::uint32_t client, std::uint64_t step, Message& message) const = 0;
};

}  // namespace ddprun::bench
