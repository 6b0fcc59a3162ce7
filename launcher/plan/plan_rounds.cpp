// The life of the rounds: when one fails, when it is tried again, and how its workers are stopped.
#include "launcher/plan/plan_parts.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::launcher {

rdzv::RestartSettings plan_restarts(const LaunchOptions& options) {
  rdzv::RestartSettings settings;
  settings.max_restarts = options.max_restarts;
  settings.window = options.restart_window;
  settings.back_off = options.restart_delay.value_or(rdzv::kAutoBackOff);
  if (!options.restart_delay) settings.back_off_max = rdzv::kAutoBackOffMax;
  settings.minimum_uptime = options.minimum_uptime;
  settings.no_restart_codes = options.no_restart_codes;
  return settings;
}

void plan_rounds(const LaunchOptions& options, const Environment& environment, LaunchPlan& plan) {
  agent::AgentConfig& agent = plan.agent;
  agent.restart = plan_restarts(options);
  agent.progress_timeout = options.progress_timeout;
  agent.log_timeout = options.log_timeout;
  agent.restart_on_silence = options.on_silence == OnSilence::restart;
  agent.file_timers = lookup(environment, proto::env::kEnableFileTimer) == "1";
  if (agent.file_timers)
    agent.timer_file = lookup(environment, proto::env::kTimerFile).value_or("");
  agent.grace_period = plan.warden.grace_period = options.grace_period;
  agent.kill_timeout = plan.warden.kill_timeout = options.kill_timeout;
  agent.stop_signals = plan.warden.stop_signals = options.stop_signals;
  agent.forward_signals = plan.warden.forward_signals = options.forward_signals;
}

void plan_end_of_job(const LaunchOptions& options, const Environment& environment,
                     LaunchPlan& plan) {
  plan.report.file = options.report_file;
  plan.report.exit_code_rule = options.exit_code_rule;
  plan.report.error_file = lookup(environment, proto::env::kErrorFile).value_or("");
  plan.agent.keep_error_files = !plan.report.error_file.empty();
}

}  // namespace ddprun::launcher
