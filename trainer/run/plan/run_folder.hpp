// Where a run keeps its checkpoints and metrics, and how a restarted group finds that again.
#pragma once

#include <filesystem>

#include "trainer/run/cli/environment.hpp"
#include "trainer/run/cli/options.hpp"

namespace ddprun::trainer {

/// Whether --out or a run id says which directory is meant.
bool names_its_run(const Options& options, const WorkerEnvironment& environment);

/// --out, else below `base`/ddprun-out: the run id; without one, `now` (date and time, with _2 and
/// so on where it is taken), or, in a restarted group, the last one that this job has marked (where
/// jobs cannot be told apart, the last of all). Looks at the directory, creates nothing.
std::filesystem::path choose_out(const Options& options, const WorkerEnvironment& environment,
                                 const std::filesystem::path& base, const std::string& now);

/// Marks a run without a name as this job's, and makes it if need be. Whatever else names the run
/// needs no mark. What cannot be written costs the restarted group its way back, not the run.
void mark_run(const Options& options, const WorkerEnvironment& environment,
              const std::filesystem::path& out);

}  // namespace ddprun::trainer
