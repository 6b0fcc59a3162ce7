// The parts of make_plan that fill in one side of the plan each. For plan.cpp only.
#pragma once

#include "launcher/plan/plan.hpp"

namespace ddprun::launcher {

/// Streams and log files of every worker; the workers must be there.
void plan_streams(const LaunchOptions& options, const Probes& probes, LaunchPlan& plan);

/// The level of containment, or why it can't be had.
Outcome<bool> plan_containment(const LaunchOptions& options, const Probes& probes,
                               LaunchPlan& plan);

/// Run id, MASTER_ADDR, MASTER_PORT and where the store listens.
Outcome<bool> plan_meeting_point(const LaunchOptions& options, const Probes& probes,
                                 LaunchPlan& plan);

/// CPU sets and OMP_NUM_THREADS; workers and devices must be there. `gpus` are the PCI addresses of
/// the chosen GPUs.
Outcome<bool> plan_cpus(const LaunchOptions& options, const Environment& environment,
                        const Probes& probes, const std::vector<std::string>& gpus,
                        LaunchPlan& plan);

}  // namespace ddprun::launcher
