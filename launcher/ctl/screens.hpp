// What ddpctl prints of a job's answers, for people. Pure.
#pragma once

#include <string>
#include <vector>

namespace ddprun::ctl {

struct ListedJob {
  std::string name;    ///< by which it can be asked for
  std::string status;  ///< its answer
};
/// One line for each job, under a heading.
std::string list_text(const std::vector<ListedJob>& jobs);

/// The job, and a line for each of its workers here.
std::string status_text(const std::string& status);

/// What came of a request to save.
std::string save_text(const std::string& answer);

/// One line: `2026-01-31T12:00:00.123Z  round 2  worker_ended  rank=1 signal=9`.
std::string event_text(const std::string& event);

}  // namespace ddprun::ctl
