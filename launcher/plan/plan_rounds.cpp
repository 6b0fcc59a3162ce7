// The life of the rounds: when one fails, when it is tried again, and how its workers are stopped.
#include "launcher/plan/plan_parts.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::launcher {

void plan_rounds(const LaunchOptions& options, const Environment& environment, LaunchPlan& plan) {
  agent::AgentConfig& agent = plan.agent;
  agent.job.restart = options.restart;
  agent.watch = options.watch;
  agent.file_timers = lookup(environment, proto::env::kEnableFileTimer) == "1";
  if (agent.file_timers)
    agent.timer_file = lookup(environment, proto::env::kTimerFile).value_or("");
  agent.stop = plan.warden.stop = options.stop;
}

void plan_end_of_job(const LaunchOptions& options, const Environment& environment,
                     LaunchPlan& plan) {
  plan.report.file = options.report_file;
  plan.report.exit_code_rule = options.exit_code_rule;
  plan.report.error_file = lookup(environment, proto::env::kErrorFile).value_or("");
  plan.agent.keep_error_files = !plan.report.error_file.empty();
}

}  // namespace ddprun::launcher
