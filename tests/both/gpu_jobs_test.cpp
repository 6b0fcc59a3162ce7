// Jobs of ddprun on emulated GPUs: their weights are those of train alone, and what hangs or fails
// while NCCL registers memory ends in time. What else fails there is in gpu_faults_test.cpp.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/both/gpu_job.hpp"
#include "trainer/run/exit_codes.hpp"

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

TEST_CASE("a window that a rank never comes to ends the job at --rendezvous-timeout") {
  const SmallData data;
  const GpuJobResult result =
      run_gpu_job(2, four_steps(data, {"--no-deterministic", "--rendezvous-timeout=10s"}),
                  "1:window_hangs 0:abort_hangs 1:abort_hangs");
  INFO(result.job.err << result.report);
  CHECK(result.job.status == ddprun::trainer::kExitPeerLost);
  CHECK_THAT(result.job.err, Contains("NCCL has not registered the gradients of all ranks by the "
                                      "deadline: ncclCommWindowRegister on rank ") &&
                                 Contains("NCCL_WIN_ENABLE=0 on all ranks"));
}

TEST_CASE("a rank on which NCCL registers no window is the culprit, with what to do") {
  const SmallData data;
  const GpuJobResult result =
      run_gpu_job(2, four_steps(data, {"--no-deterministic"}), "1:window_error");
  INFO(result.job.err << result.report);
  CHECK(result.job.status == ddprun::trainer::kExitPeerLost);
  const auto culprit = culprit_of(result);
  CHECK(culprit["rank"] == 1);
  CHECK_THAT(culprit["evidence_text"].get<std::string>(),
             Contains("ncclCommWindowRegister on rank 1 (emulated GPU GPU-") &&
                 Contains("failed: ") && Contains("NCCL_WIN_ENABLE=0"));
}

TEST_CASE(
    "a rank that is killed while windows are registered is the culprit, and a restart works") {
  const SmallData data;
  const Arguments arguments = four_steps(data, {"--no-deterministic"});
  const GpuJobResult result = run_gpu_job(2, arguments, "1:window_kill", 1);
  INFO(result.job.out << result.job.err << result.report);
  REQUIRE(result.job.status == 0);
  check_rank_1_was_killed(nlohmann::json::parse(result.report));
  CHECK(field(result.outcome(), "weights") == weights(on_gpus(arguments, 2)));
}
