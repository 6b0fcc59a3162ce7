// The life of the rounds: when one fails, when it is tried again, and how its workers are stopped.
#include <fmt/format.h>

#include "launcher/plan/plan_parts.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::launcher {
namespace {

/// What the faults come to nothing without.
void plan_chaos(const LaunchOptions& options, LaunchPlan& plan) {
  const agent::ChaosPlan& chaos = *plan.agent.chaos;
  const bool ends_rounds = chaos.has(agent::ChaosFault::kill) || chaos.has(agent::ChaosFault::stop);
  if (ends_rounds && options.failures.restart.max_restarts == 0)
    plan.warnings.emplace_back("--chaos without --max-restarts: the first fault ends the job");
  const bool finds_hangs = options.failures.watch.progress_timeout.count() > 0 ||
                           options.failures.watch.on_silence == OnSilence::restart;
  if (chaos.has(agent::ChaosFault::stop) && !finds_hangs) {
    plan.warnings.emplace_back(
        "--chaos with stop: a stopped worker is only found with --progress-timeout or "
        "--on-silence=restart");
  }
}

}  // namespace

LaunchResult<void> check_chaos(const LaunchPlan& plan) {
  if (!plan.agent.chaos) return {};
  const auto& rendezvous = plan.agent.rendezvous;
  for (const agent::ChaosFault fault : {agent::ChaosFault::service, agent::ChaosFault::partition}) {
    if (rendezvous || !plan.agent.chaos->has(fault)) continue;
    return usage_error(fmt::format(
        "--chaos with {0}: a job of one node has no rendezvous; leave {0} out, or start several "
        "nodes with --nnodes",
        to_string(fault)));
  }
  if (plan.agent.chaos->has(agent::ChaosFault::service) && rendezvous->etcd) {
    return usage_error(
        "--chaos with service: with etcd an agent's rendezvous cannot be killed alone; leave "
        "service out, and kill the ddprun of a node yourself (kill -9 PID)");
  }
  if (plan.agent.chaos->has(agent::ChaosFault::service) &&
      rendezvous->hosting == rdzv::HostingWish::several_rdzvd) {
    return usage_error(
        "--chaos with service: ddprun kills no rdzvd, because other jobs may use it; leave service "
        "out, and kill one of the rdzvd yourself (kill -9 PID)");
  }
  return {};
}

void plan_rounds(const LaunchOptions& options, const Environment& environment, LaunchPlan& plan) {
  agent::AgentConfig& agent = plan.agent;
  agent.job.restart = options.failures.restart;
  agent.watch = options.failures.watch;
  if (!options.failures.preflight.empty())
    agent.preflight =
        agent::PreflightSettings{options.failures.preflight, options.failures.preflight_timeout};
  agent.chaos = options.failures.chaos;
  if (agent.chaos) plan_chaos(options, plan);
  agent.file_timers = lookup(environment, proto::env::kEnableFileTimer) == "1";
  if (agent.file_timers)
    agent.timer_file = lookup(environment, proto::env::kTimerFile).value_or("");
  agent.stop = plan.warden.stop = options.failures.stop;
}

void plan_end_of_job(const LaunchOptions& options, const Environment& environment,
                     LaunchPlan& plan) {
  plan.report.file = options.report.file;
  plan.report.exit_code_rule = options.report.exit_code_rule;
  plan.report.error_file = lookup(environment, proto::env::kErrorFile).value_or("");
  plan.agent.keep_error_files = !plan.report.error_file.empty();
}

}  // namespace ddprun::launcher
