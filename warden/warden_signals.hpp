// Which signals the warden waits for, and which end it.
#pragma once

#include <csignal>

#include "machine/processes/stop_settings.hpp"

namespace ddprun::warden {

/// Whether the signal ends the job.
bool ends_job(const machine::StopSettings& stop, int signal);

/// What the warden waits for. Signals that were ignored when we started stay so (nohup).
sigset_t watched_signals(const machine::StopSettings& stop);

/// Unblocks the signals that usually end a program and that --signals-to-handle leaves out: they
/// end the warden, and the agent then kills everything.
void restore_others(const machine::StopSettings& stop);

/// Stops this process, in which SIGCONT and this signal are blocked, until it is continued. False:
/// the kernel did not stop it.
bool stop_by(int signal);

}  // namespace ddprun::warden
