#include "bench/gpu/gpu_gaps.hpp"

#include <cstdio>

#include "bench/gpu/measured_gpu.hpp"
#include "trainer/run/exit_codes.hpp"
#include "trainer/run/train_main.hpp"

namespace ddprun::bench {

int bench_gpu_gaps_main(int argc, char** argv, trainer::GpuSource& gpus, std::uint64_t warm_up) {
  MeasuredGpus measured(gpus, warm_up);
  const int code = trainer::train_main(argc, argv, measured);
  if (code != trainer::kExitSuccess) return code;
  const StepTimes& times = measured.times();
  if (times.steps() == 0) {
    std::fprintf(stderr,
                 "bench_gpu_gaps: no step was measured: it needs --device=cuda and a --max-steps "
                 "above %llu\n",
                 static_cast<unsigned long long>(warm_up));
    return trainer::kExitFailure;
  }
  std::printf(R"({"gap_share": %.5f, "step_seconds": %.7f, "update_gb_s": %.2f, "steps": %llu})"
              "\n",
              times.gap_share(), times.step_seconds(), times.update_rate() / 1e9,
              static_cast<unsigned long long>(times.steps()));
  return trainer::kExitSuccess;
}

}  // namespace ddprun::bench
