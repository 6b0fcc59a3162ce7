// The life of the rounds: when one fails, when it is tried again, how its workers are stopped, and
// how surely nothing of the job survives.
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
    agent.checks.preflight =
        agent::PreflightSettings{options.failures.preflight, options.failures.preflight_timeout};
  agent.commands = options.failures.commands;
  agent.chaos = options.failures.chaos;
  if (agent.chaos) plan_chaos(options, plan);
  agent.timers.watched = lookup(environment, proto::env::kEnableFileTimer) == "1";
  if (agent.timers.watched)
    agent.timers.file = lookup(environment, proto::env::kTimerFile).value_or("");
  agent.stop = plan.warden.stop = options.failures.stop;
}

void plan_end_of_job(const LaunchOptions& options, const Environment& environment,
                     LaunchPlan& plan) {
  plan.report.file = options.report.file;
  plan.agent.report.event_file = options.report.event_log;
  plan.report.exit_code_rule = options.report.exit_code_rule;
  plan.report.error_file = lookup(environment, proto::env::kErrorFile).value_or("");
  plan.agent.report.keep_error_files = !plan.report.error_file.empty();
}

LaunchResult<void> plan_containment(const LaunchOptions& options, const Probes& probes,
                                    LaunchPlan& plan) {
  using machine::ContainmentLevel;
  plan.warden.cgroup_optional = options.failures.containment == Containment::automatic;
  ContainmentLevel& level = plan.warden.containment;
  switch (options.failures.containment) {
    case Containment::automatic:
      // Only where it was delegated to us: people who manage the machine see a cgroup.
      level = probes.cgroup_delegated() ? ContainmentLevel::cgroup : ContainmentLevel::tree;
      break;
    case Containment::tree:
      level = ContainmentLevel::tree;
      break;
    case Containment::pidns:
      level = ContainmentLevel::pidns;
      break;
    case Containment::cgroup:
      level = ContainmentLevel::cgroup;
      break;
  }
  plan.agent.containment = level;
  if (options.failures.containment != Containment::cgroup || probes.cgroup_possible()) return {};
  return usage_error(
      "--contain=cgroup: cannot create a cgroup here (needs cgroup version 2, Linux 5.14 or newer, "
      "and "
      "clone3 allowed by seccomp); start with systemd-run --user --scope -p Delegate=yes "
      "ddprun ..., or use --contain=auto or pidns");
}

}  // namespace ddprun::launcher
