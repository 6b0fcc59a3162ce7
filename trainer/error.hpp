// What the trainer throws. Caught only in main, printed as one line; a lost peer is not an
// exception (see CommResult).
#pragma once

#include <stdexcept>

namespace ddprun::trainer {

/// Data, a checkpoint or a configuration that cannot be used. The message names the file, the
/// offset where it matters, and what to do. Exit code 2 when thrown before training starts.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A device has failed and cannot be used any more. Whoever passes it on adds what it knows: the
/// layer, the rank.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace ddprun::trainer
