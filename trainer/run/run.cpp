#include "trainer/run/run.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "trainer/run/exit_codes.hpp"
#include "trainer/run/plan.hpp"
#include "trainer/run/worker_run.hpp"

namespace ddprun::trainer {

int run_worker(const Options& options, const WorkerEnvironment& environment, GpuSource& gpus,
               StopSignals& stop) {
  check_parallel(options, environment);
  const ChosenDevice chosen = choose_device(options, environment, gpus);
  Options used = options;
  if (chosen.gpu) used.device.lanes = 1;  // its work comes from one thread
  WorkerRun run(chosen, used, environment, stop);
  int code = kExitFailure;
  try {
    code = run.run();
  } catch (const std::exception& error) {
    code = run.failed(error);
  }
  if (chosen.gpu && code != kExitSuccess) {
    // A GPU that hangs would be waited for by all that is in its memory. The driver cleans up.
    run.give_up_directory();
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}

}  // namespace ddprun::trainer
