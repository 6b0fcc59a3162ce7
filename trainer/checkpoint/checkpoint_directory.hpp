// A directory of checkpoints: naming, finding the newest whole one, publishing by rename, keeping
// the last k and the best. One process writes at a time (rank 0).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/unique_handle.hpp"
#include "trainer/checkpoint/checkpoint_files.hpp"

namespace ddprun::trainer {

/// Links to the newest checkpoint and to the best one.
inline constexpr const char* kLatestLink = "latest";
inline constexpr const char* kBestLink = "best";

/// One that cannot be resumed.
struct SkippedCheckpoint {
  std::filesystem::path path;
  std::string reason;
  bool names_file = false;  ///< the reason begins with a path below `path`: damaged, or another's
  [[nodiscard]] std::string text() const {
    return names_file ? reason : path.string() + ": " + reason;
  }
};

/// The newest checkpoint that can be resumed, and why newer ones cannot.
struct FoundCheckpoint {
  std::optional<Snapshot> snapshot;
  std::filesystem::path path;
  std::vector<SkippedCheckpoint> skipped;  ///< newest first
  std::size_t other_formats = 0;           ///< of these: written by other versions of train
  std::uint64_t sequence_next = 0;         ///< above every sequence seen
};

/// Looks through `directory` (which may be absent). `refuse` says why a readable state is not this
/// run's; empty: it is. Newest means the highest sequence; where state.json is not readable, it
/// counts as newest.
FoundCheckpoint find_newest(const std::filesystem::path& directory, const CheckpointLayout& layout,
                            const std::function<std::string(const TrainingState&)>& refuse);

/// The states of all checkpoints in it that are readable, of any run, newest first. Reads no
/// tensors.
std::vector<TrainingState> states_in(const std::filesystem::path& directory);

/// Where a run that has its state from elsewhere goes on writing.
struct LastCheckpoint {
  std::uint64_t sequence_next = 0;  ///< above every sequence seen
  std::filesystem::path path;       ///< of the newest readable one of the run; empty: none
  std::int64_t step = -1;           ///< its own; -1: none
  std::int64_t block = 0;
};
/// Looks for those of `lineage`. Reads no tensors.
LastCheckpoint find_last(const std::filesystem::path& directory, const std::string& lineage);

/// Where no link leads to it: the newest checkpoint that is marked best, else the newest one, of
/// those with a readable state. Reads no tensors.
std::optional<std::filesystem::path> find_best(const std::filesystem::path& directory);

/// A checkpoint that has its name.
struct PublishedCheckpoint {
  std::filesystem::path path;
  std::error_code links;  ///< why a link could not be moved
};

/// A checkpoint under construction: an exclusive directory that is never taken for a checkpoint. It
/// is locked (flock), so that others can tell it from one left by a dead writer. Removed by the
/// destructor unless published.
class PendingCheckpoint {
 public:
  /// Creates `directory` (with parents) if needed, and the temporary one. Throws std::system_error.
  explicit PendingCheckpoint(const std::filesystem::path& directory);
  ~PendingCheckpoint();
  PendingCheckpoint(const PendingCheckpoint&) = delete;
  PendingCheckpoint& operator=(const PendingCheckpoint&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Renames it to step-NNNNNNNN (with .2, .3, ... where that name is taken), flushes, and moves
  /// the links `latest` and, if `best`, `best`. Throws std::system_error.
  PublishedCheckpoint publish(std::int64_t step, bool best);

 private:
  std::filesystem::path directory_;
  std::filesystem::path path_;
  UniqueFd lock_;
};

/// Removes temporary directories that lost their writer. Returns how many. Errors are ignored: it
/// is only tidying.
std::size_t remove_stale(const std::filesystem::path& directory);

/// Removes all checkpoints of `lineage` but the newest `keep` and the newest one marked best. Other
/// runs' are never touched, nor those in which a file was replaced by a pipe, a link or a folder.
/// Errors are ignored: the next time tries again.
void prune(const std::filesystem::path& directory, const std::string& lineage, std::size_t keep);

}  // namespace ddprun::trainer
