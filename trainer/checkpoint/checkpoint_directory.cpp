#include "trainer/checkpoint/checkpoint_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <system_error>

#include "base/file_lock.hpp"
#include "trainer/checkpoint/durable_file.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "step-";
constexpr const char* kTemporaryPrefix = ".writing-";
constexpr int kSameStepMax = 1000;

struct Entry {
  fs::path path;
  std::optional<TrainingState> state;
  std::string error;  // why there is no state
  bool is_other_format = false;

  [[nodiscard]] std::uint64_t sequence() const {
    return state ? state->sequence : std::numeric_limits<std::uint64_t>::max();
  }
};

std::vector<fs::path> list(const fs::path& directory, const std::string& prefix) {
  std::vector<fs::path> paths;
  std::error_code ignored;
  for (fs::directory_iterator it(directory, ignored), end; it != end; it.increment(ignored)) {
    const bool matches = it->path().filename().string().starts_with(prefix);
    // Not through symbolic links: what is removed later must lie here.
    if (matches && it->symlink_status(ignored).type() == fs::file_type::directory) {
      paths.push_back(it->path());
    }
  }
  return paths;
}

/// All checkpoints, newest first.
std::vector<Entry> read_all(const fs::path& directory) {
  std::vector<Entry> entries;
  for (const fs::path& path : list(directory, kPrefix)) {
    Entry entry{.path = path, .state = std::nullopt, .error = ""};
    try {
      entry.state = read_state(path);
    } catch (const OtherFormat& error) {
      entry.error = error.what();
      entry.is_other_format = true;
    } catch (const DataError& error) {
      entry.error = error.what();
    }
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.sequence(), a.path) > std::pair(b.sequence(), b.path);
  });
  return entries;
}

/// Not through a link that stands in its place by now.
UniqueFd open_folder(const fs::path& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// Points the symbolic link `name` at `target` by rename. Some file systems have no links.
std::error_code move_link(const fs::path& directory, const char* name, const fs::path& target) {
  std::error_code error;
  const fs::path temporary = directory / fmt::format(".link-{}", name);
  fs::remove(temporary, error);
  fs::create_directory_symlink(target, temporary, error);
  if (!error) fs::rename(temporary, directory / name, error);
  return error;
}

}  // namespace

FoundCheckpoint find_newest(const fs::path& directory, const CheckpointLayout& layout,
                            const std::function<std::string(const TrainingState&)>& refuse) {
  FoundCheckpoint found;
  for (const Entry& entry : read_all(directory)) {
    if (!entry.state) {
      found.skipped.push_back({entry.path, entry.error, true});
      if (entry.is_other_format) ++found.other_formats;
      continue;
    }
    found.sequence_next = std::max(found.sequence_next, entry.state->sequence + 1);
    if (found.snapshot) continue;
    const std::string reason = refuse(*entry.state);
    if (!reason.empty()) {
      found.skipped.push_back({entry.path, reason});
      continue;
    }
    try {
      found.snapshot = read_checkpoint(entry.path, layout);
      found.path = entry.path;
    } catch (const DataError& error) {
      found.skipped.push_back({entry.path, error.what(), true});
    }
  }
  return found;
}

LastCheckpoint find_last(const fs::path& directory, const std::string& lineage) {
  LastCheckpoint last;
  for (const Entry& entry : read_all(directory)) {
    if (!entry.state) continue;
    last.sequence_next = std::max(last.sequence_next, entry.state->sequence + 1);
    if (!last.path.empty() || entry.state->origin.lineage != lineage) continue;
    last.path = entry.path;
    last.step = entry.state->step;
    last.block = entry.state->block;
  }
  return last;
}

std::vector<TrainingState> states_in(const fs::path& directory) {
  std::vector<TrainingState> states;
  for (Entry& entry : read_all(directory))
    if (entry.state) states.push_back(std::move(*entry.state));
  return states;
}

std::optional<fs::path> find_best(const fs::path& directory) {
  const std::vector<Entry> entries = read_all(directory);
  std::optional<fs::path> newest;
  for (const Entry& entry : entries) {
    if (!entry.state) continue;
    if (entry.state->best) return entry.path;
    if (!newest) newest = entry.path;
  }
  return newest;
}

PendingCheckpoint::PendingCheckpoint(const fs::path& directory) : directory_(directory) {
  fs::create_directories(directory);
  std::string pattern = (directory / (std::string(kTemporaryPrefix) + "XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), pattern);
  }
  path_ = pattern;
  lock_ = open_folder(path_);
  if (!lock_) throw std::system_error(errno, std::generic_category(), pattern);
  // Some file systems have no rights of their own, and some no locks.
  static_cast<void>(!::fchmod(lock_.get(), 0755));
  static_cast<void>(try_lock(lock_));
}

PendingCheckpoint::~PendingCheckpoint() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

PublishedCheckpoint PendingCheckpoint::publish(std::int64_t step, bool best) {
  const std::string stem = fmt::format("{}{:08}", kPrefix, step);
  fs::path target;
  for (int copy = 1; copy < kSameStepMax; ++copy) {
    target = directory_ / (copy == 1 ? stem : fmt::format("{}.{}", stem, copy));
    if (::rename(path_.c_str(), target.c_str()) == 0) {
      path_.clear();
      break;
    }
    // Another run's checkpoint, a damaged one, a link or a file: it is not ours to replace.
    if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) {
      throw std::system_error(errno, std::generic_category(), target.string());
    }
  }
  if (!path_.empty()) throw std::system_error(EEXIST, std::generic_category(), target.string());
  sync_directory(directory_);
  lock_.reset();
  std::error_code links = move_link(directory_, kLatestLink, target.filename());
  if (best && !links) links = move_link(directory_, kBestLink, target.filename());
  return {.path = target, .links = links};
}

std::size_t remove_stale(const fs::path& directory) {
  std::size_t removed = 0;
  for (const fs::path& path : list(directory, kTemporaryPrefix)) {
    const UniqueFd folder = open_folder(path);
    if (!folder || try_lock(folder) != LockOutcome::locked) continue;  // its writer lives
    std::error_code error;
    fs::remove_all(path, error);
    if (!error) ++removed;
  }
  return removed;
}

namespace {

/// Whether nobody has put a pipe, a link or a folder in the place of a file.
bool has_files_alone(const fs::path& checkpoint) {
  std::error_code error;
  for (fs::directory_iterator it(checkpoint, error), end; it != end; it.increment(error)) {
    if (!fs::is_regular_file(it->symlink_status(error))) return false;
  }
  return !error;
}

}  // namespace

void prune(const fs::path& directory, const std::string& lineage, std::size_t keep) {
  std::size_t kept = 0;
  bool best_kept = false;
  for (const Entry& entry : read_all(directory)) {
    if (!entry.state || entry.state->origin.lineage != lineage || !has_files_alone(entry.path))
      continue;
    const bool is_best = entry.state->best && !best_kept;
    best_kept = best_kept || is_best;
    if (kept < keep || is_best) {
      ++kept;
      continue;
    }
    // First under a name that is never taken for a checkpoint: a kill halfway leaves no torn one.
    const fs::path doomed =
        directory / (std::string(kTemporaryPrefix) + entry.path.filename().string());
    std::error_code ignored;
    fs::rename(entry.path, doomed, ignored);
    fs::remove_all(doomed, ignored);
  }
}

}  // namespace ddprun::trainer
