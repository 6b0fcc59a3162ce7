// The private folder for what lives as long as the job.
#pragma once

#include <string>

#include "base/unique_handle.hpp"

namespace ddprun::launcher {

struct RunFolder {
  std::string path;  ///< empty: none can be made
  /// Locked as long as a process has it open: warden or agent of the job lives. Not for workers.
  UniqueFd lock;
};

/// Makes BASE/ddprun_XXXXXX, locks it, and puts a marker file into it.
RunFolder make_run_folder(const std::string& base);

/// Whether folders beside `own`, a run folder, have the name of one: there may be work for
/// remove_dead_run_folders.
bool has_other_run_folders(const std::string& own);

/// Removes those in `base` whose jobs have ended, which must have been by SIGKILL: folders of this
/// user with the marker file that nobody has locked. Only where `base` is in memory: on a disk they
/// cost little, and a disk may be another machine's, which does not show its locks.
void remove_dead_run_folders(const std::string& base);

}  // namespace ddprun::launcher
