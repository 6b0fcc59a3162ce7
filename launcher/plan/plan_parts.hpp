// The parts of make_plan that fill in one side of the plan each. For plan.cpp only.
#pragma once

#include "launcher/plan/plan.hpp"

namespace ddprun::launcher {

/// Restarts, what counts as a hang, and how workers are stopped.
void plan_rounds(const LaunchOptions& options, const Environment& environment, LaunchPlan& plan);

/// The report, the exit code, and the copy of the culprit's error file.
void plan_end_of_job(const LaunchOptions& options, const Environment& environment,
                     LaunchPlan& plan);

/// Streams and log files of every worker; the workers must be there.
void plan_streams(const LaunchOptions& options, const Probes& probes, LaunchPlan& plan);

/// The level of containment, or why it can't be had.
Outcome<void> plan_containment(const LaunchOptions& options, const Probes& probes,
                               LaunchPlan& plan);

/// Run id, MASTER_ADDR, MASTER_PORT and where the store listens.
Outcome<void> plan_meeting_point(const LaunchOptions& options, const Probes& probes,
                                 LaunchPlan& plan);

/// CPU sets and OMP_NUM_THREADS; workers and devices must be there. `gpus` are the PCI addresses of
/// the chosen GPUs.
Outcome<void> plan_cpus(const LaunchOptions& options, const Environment& environment,
                        const Probes& probes, const std::vector<std::string>& gpus,
                        LaunchPlan& plan);

}  // namespace ddprun::launcher
