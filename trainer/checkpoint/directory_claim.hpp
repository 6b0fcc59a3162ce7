// Which round of a job writes checkpoints into a directory: the last one that claimed it. A worker
// of an older round that was cut off from the job, and is about to be killed for it, finds there
// that it comes too late, also where it comes to claim after the newer round did.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/unique_handle.hpp"

namespace ddprun::trainer {

class DirectoryClaim {
 public:
  struct Round {
    std::string run_id;
    std::uint64_t epoch = 0;
    std::uint64_t number = 0;
  };

  /// Claims `directory`, which is made if need be: once this returns, no earlier claim can publish
  /// there any more. Throws std::system_error, and DataError where another process publishes for
  /// longer than 10 s, or where a later round of the same run claimed it and is alive (a higher
  /// epoch, or a higher number in the same one): a claim counts as alive as long as its object
  /// lives. (A run that ended is no obstacle: the next one of the same id may count its epochs and
  /// rounds from the beginning again.)
  DirectoryClaim(const std::filesystem::path& directory, Round round);

  /// While the result is held, no process can claim the directory. Throws DataError where a later
  /// round of the same run has. Runs of other ids may share a directory.
  [[nodiscard]] UniqueFd hold() const;

 private:
  std::filesystem::path path_;
  Round round_;
  std::string token_;  // differs for each claim
  UniqueFd alive_;     // its lock tells others that this process lives; none: no locks here
};

}  // namespace ddprun::trainer
