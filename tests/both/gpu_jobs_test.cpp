// Jobs of ddprun on emulated GPUs: their weights are those of train alone. What fails there is in
// gpu_faults_test.cpp.
#include <catch2/catch.hpp>

#include "tests/both/gpu_job.hpp"

using namespace ddprun::test;

namespace {

using Arguments = std::vector<std::string>;
using Catch::Contains;

/// Arguments of a run of four steps, without checkpoints.
Arguments four_steps(const SmallData& data, const Arguments& more) {
  Arguments arguments = short_run(data, {"--max-steps=4", "--checkpoint-every=off"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST_CASE("a job of ddprun with one worker or two, each on its GPU, ends with the same weights") {
  const SmallData data;
  const std::string alone = weights(on_gpus(four_steps(data, {"--exact"})));
  for (const int workers : {1, 2}) {
    const GpuJobResult result = run_gpu_job(workers, four_steps(data, {"--exact"}));
    INFO(workers << " workers: " << result.job.out << result.job.err);
    REQUIRE(result.job.status == 0);
    const std::string outcome = result.outcome();
    CHECK(field(outcome, "weights") == alone);
    CHECK(field(outcome, "world_size") == std::to_string(workers));
    CHECK_THAT(field(outcome, "compute"), Contains("emulated GPU"));
  }
}
