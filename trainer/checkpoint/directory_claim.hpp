// Which round of a job writes checkpoints into a directory: the last one that claimed it. A worker
// of an older round that was cut off from the job, and is about to be killed for it, finds there
// that it comes too late.
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
  /// there any more. Throws std::system_error, and DataError where another process
  /// publishes for longer than 10 s.
  DirectoryClaim(const std::filesystem::path& directory, Round round);

  /// While the result is held, no process can claim the directory. Throws DataError where a later
  /// round of the same run has. Runs of other ids may share a directory.
  [[nodiscard]] UniqueFd hold() const;

 private:
  std::filesystem::path path_;
  Round round_;
  std::string token_;  // differs for each claim
};

}  // namespace ddprun::trainer
