#include "launcher/ctl/asked_job.hpp"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/exit_codes.hpp"
#include "base/small_file.hpp"

namespace ddprun::ctl {

std::vector<JobSocketName> jobs_of_user() {
  return jobs_in(read_small_file("/proc/net/unix").value_or(""), getuid());
}

JobSocketName job_of(const CtlOptions& options) {
  const char* const own = std::getenv("DDPRUN_SOCKET");
  auto job = chosen_job(jobs_of_user(), options.job, own != nullptr ? own : "");
  if (!job) throw Failed{job.error().is_ambiguous ? kExitUsage : kExitRefused, job.error().text};
  return *job;
}

void no_answer(const JobSocketName& job, const ErrorCode& error) {
  throw Failed{kExitNoRound, fmt::format("job {} does not answer: {}", job.job, error.message())};
}

JobConnection connect(const JobSocketName& job) {
  auto connection = JobConnection::open(job.address, JobConnection::Clock::now() + kAnswerLimit);
  if (!connection) no_answer(job, connection.error());
  if (connection->peer_user() != job.user)
    throw Failed{kExitRefused, fmt::format("{} is a socket of another user", job.address)};
  if (!connection->has_feature("requests"))
    throw Failed{
        kExitRefused,
        fmt::format("job {} runs under an older ddprun, which this ddpctl cannot ask", job.job)};
  return std::move(*connection);
}

}  // namespace ddprun::ctl
