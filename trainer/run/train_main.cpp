// Options, environment, one worker, exit code.
#include "trainer/run/train_main.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "base/program_main.hpp"
#include "trainer/run/cli/environment.hpp"
#include "trainer/run/cli/evaluation_arguments.hpp"
#include "trainer/run/cli/options.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/report/report.hpp"
#include "trainer/run/worker_run.hpp"

namespace {

using ddprun::trainer::EarlyExit;
using ddprun::trainer::GpuSource;
using ddprun::trainer::Options;

int run(const std::vector<std::string>& arguments, bool has_stdout, GpuSource& gpus) {
  const auto parsed = ddprun::trainer::parse_options(
      ddprun::trainer::evaluation_arguments(arguments), [&gpus] { return gpus.versions(); });
  if (const auto* exit = std::get_if<EarlyExit>(&parsed)) {
    if (exit->code == 0)
      return ddprun::print_text("train", exit->text, has_stdout) ? 0
                                                                 : ddprun::trainer::kExitFailure;
    std::fputs(exit->text.c_str(), stderr);
    return exit->code;
  }
  ddprun::trainer::StopSignals stop;  // before there are other threads
  return ddprun::trainer::run_worker(
      std::get<Options>(parsed),
      ddprun::trainer::read_environment([](const char* name) { return std::getenv(name); }), gpus,
      stop);
}

}  // namespace

int ddprun::trainer::train_main(int argc, char** argv, GpuSource& gpus) {
  const bool has_stdout = ddprun::ensure_standard_descriptors();
  ddprun::end_on_uncaught_exception("train", ddprun::trainer::kExitFailure);
  // A reader of our output that goes away, or a file-size limit, is an error of one write, not the
  // end of training.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return run(std::vector<std::string>(argv + 1, argv + argc), has_stdout, gpus);
  } catch (const std::exception& error) {
    return report_failure(error);
  }
}
