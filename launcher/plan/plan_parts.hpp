// The parts of make_plan that fill in one side of the plan each. For plan.cpp only.
#pragma once

#include "launcher/plan/plan.hpp"

namespace ddprun::launcher {

/// Restarts, what counts as a hang, and how workers are stopped.
void plan_rounds(const LaunchOptions& options, const Environment& environment, LaunchPlan& plan);

/// Whether the job has what --chaos is to break; the meeting point must be there.
LaunchResult<void> check_chaos(const LaunchPlan& plan);

/// The report, the exit code, and the copy of the culprit's error file.
void plan_end_of_job(const LaunchOptions& options, const Environment& environment,
                     LaunchPlan& plan);

/// Streams and log files of every worker; the workers must be there.
void plan_streams(const LaunchOptions& options, const Probes& probes, LaunchPlan& plan);

/// The level of containment, or why it can't be had.
LaunchResult<void> plan_containment(const LaunchOptions& options, const Probes& probes,
                                    LaunchPlan& plan);

/// Run id, and where nodes and workers meet.
LaunchResult<void> plan_meeting_point(const LaunchOptions& options, const Environment& environment,
                                      const Probes& probes, LaunchPlan& plan);

/// By what the nodes know each other: the secret, or credentials. Reads the secret's file.
LaunchResult<void> take_secret(const LaunchOptions& options, const Environment& environment,
                               const Probes& probes, LaunchPlan& plan,
                               agent::RendezvousSettings& settings);

/// What encrypts between them; the secret must have been taken.
LaunchResult<void> take_tls(const LaunchOptions& options, const Probes& probes, LaunchPlan& plan,
                            agent::RendezvousSettings& settings);

/// Where the nodes of a job with several meet.
LaunchResult<void> plan_rendezvous(const LaunchOptions& options, const Environment& environment,
                                   const Probes& probes, LaunchPlan& plan);

/// Which etcd it is, for a job that meets over one, and how to get in. Reads the files for that.
LaunchResult<void> plan_etcd(const LaunchOptions& options, const Probes& probes, LaunchPlan& plan,
                             agent::RendezvousSettings& settings);

/// How long a host name may take to appear: that of a pod often does so after its containers run.
/// Not at all in a dry run.
std::chrono::milliseconds resolve_limit(const LaunchOptions& options);

/// The numeric address of `host`; none when it did not resolve within the limit.
std::optional<std::string> numeric_address(const std::string& host, const Probes& probes,
                                           std::chrono::milliseconds limit);

/// CPU sets and OMP_NUM_THREADS; workers and devices must be there. `gpus` are the PCI addresses of
/// the chosen GPUs.
LaunchResult<void> plan_cpus(const LaunchOptions& options, const Environment& environment,
                             const Probes& probes, const std::vector<std::string>& gpus,
                             LaunchPlan& plan);

}  // namespace ddprun::launcher
