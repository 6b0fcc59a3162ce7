// The job that the command line means, and the connection to it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "launcher/ctl/ctl_options.hpp"
#include "launcher/ctl/job_connection.hpp"
#include "launcher/ctl/jobs_here.hpp"

namespace ddprun::ctl {

/// How long a job may take for an answer that needs no work.
inline constexpr std::chrono::seconds kAnswerLimit{5};

/// Thrown: ends the command with this exit code; its line is for stderr.
struct Failed {
  int code = 0;
  std::string text;
};

/// The jobs that this user may ask.
std::vector<JobSocketName> jobs_of_user();

/// The job that the options name. Throws Failed where none or several fit.
JobSocketName job_of(const CtlOptions& options);

/// Throws Failed with exit code 69.
[[noreturn]] void no_answer(const JobSocketName& job, const ErrorCode& error);

/// A connection that takes requests. Throws Failed where there is none.
JobConnection connect(const JobSocketName& job);

}  // namespace ddprun::ctl
