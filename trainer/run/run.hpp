// One worker's whole run, from options and environment to the exit code.
#pragma once

#include "trainer/run/environment.hpp"
#include "trainer/run/gpus.hpp"
#include "trainer/run/options.hpp"
#include "trainer/run/stop_signals.hpp"

namespace ddprun::trainer {

/// Loads data, finds the checkpoint, meets the other ranks, trains. Gives the exit code
/// (exit_codes.hpp), after the line of a failure. On a GPU a run that fails leaves the process.
/// Throws DataError and DeviceError where the device of the options cannot be used.
int run_worker(const Options& options, const WorkerEnvironment& environment, GpuSource& gpus,
               StopSignals& stop);

}  // namespace ddprun::trainer
