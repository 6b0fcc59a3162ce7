// Jobs of ddprun over the fake NCCL, one rank of which hangs, fails or dies: they end in time, and
// the report names a rank with the reason.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/both/gpu_job.hpp"
#include "trainer/run/exit_codes.hpp"

using namespace ddprun::test;

namespace {

using Arguments = std::vector<std::string>;
using Catch::Contains;
using Catch::StartsWith;
using Json = nlohmann::json;

/// Operation 20 comes in the third step or later, so that there is a checkpoint by then.
constexpr const char* kLate = "20";
/// Operation 11 is a bucket's, of the fourth step or so: every other one is a meeting.
constexpr const char* kInSum = "11";

std::string last_lines(const Json& worker) {
  std::string text;
  for (const Json& line : worker["last_lines"]) text += line.get<std::string>() + "\n";
  return text;
}

}  // namespace

TEST_CASE("a rank on which NCCL fails is the culprit, with the bucket and NCCL's own words") {
  const SmallData data;
  const GpuJobResult result =
      run_gpu_job(2, short_run(data, {"--checkpoint-every=off"}), std::string("1:error=") + kInSum);
  CHECK(result.job.status == ddprun::trainer::kExitPeerLost);
  const Json culprit = culprit_of(result);
  CHECK(culprit["rank"] == 1);
  CHECK_THAT(last_lines(culprit), Contains("rank 1: gave up in step") && Contains("bucket") &&
                                      Contains("remote process exited"));
  CHECK_THAT(culprit["evidence_text"].get<std::string>(),
             StartsWith("train: error: rank 1: gave up in step"));
}

TEST_CASE("a rank that fails by itself ends at once, and is the culprit with its own words") {
  const SmallData data;
  const GpuJobResult result =
      run_gpu_job(2, short_run(data, {"--checkpoint-every=off"}), "1:destroy_hangs", 0, "1:2");
  CHECK(result.job.status == ddprun::trainer::kExitFailure);
  const Json culprit = culprit_of(result);
  CHECK(culprit["rank"] == 1);
  CHECK_THAT(culprit["evidence_text"].get<std::string>(),
             StartsWith("train: error: rank 1: layer ") && Contains("failed on emulated GPU 1"));
}

TEST_CASE(
    "a rank with a GPU that hangs is the culprit, though the other one also waited too long") {
  const SmallData data;
  const GpuJobResult result =
      run_gpu_job(2, short_run(data, {"--checkpoint-every=off", "--comm-timeout=5s"}),
                  "1:abort_hangs", 0, "1:5", "DDPRUN_EMULATED_HANGS");
  CHECK(result.job.status == ddprun::trainer::kExitFailure);
  const Json culprit = culprit_of(result);
  CHECK(culprit["rank"] == 1);
  CHECK_THAT(
      culprit["evidence_text"].get<std::string>(),
      StartsWith("train: error: rank 1: ") && Contains("the GPU has not finished its own work"));
}

TEST_CASE("a GPU that hangs ends a run of one worker at --comm-timeout, too") {
  const SmallData data;
  for (const char* work : {"1", "40"}) {
    INFO("from work " << work);
    const GpuJobResult result =
        run_gpu_job(1, short_run(data, {"--checkpoint-every=off", "--comm-timeout=2s"}), "", 0,
                    std::string("0:") + work, "DDPRUN_EMULATED_HANGS");
    CHECK(result.job.status == ddprun::trainer::kExitFailure);
    CHECK(culprit_of(result)["rank"] == 0);
    CHECK_THAT(result.job.err, Contains("train: error: ") &&
                                   Contains("s the GPU has not finished its own work: it hangs, or "
                                            "is too slow for --comm-timeout"));
  }
}

TEST_CASE(
    "a call of the driver that never returns ends its worker, with the call and the seconds") {
  const SmallData data;
  for (const int workers : {1, 2}) {
    INFO(workers << " workers");
    const GpuJobResult result =
        run_gpu_job(workers, short_run(data, {"--checkpoint-every=off", "--comm-timeout=10s"}), "",
                    0, "0:40", "DDPRUN_EMULATED_BLOCKS");
    CHECK(result.job.status == ddprun::trainer::kExitPeerLost);
    CHECK_THAT(result.job.err, Contains("train: error: rank 0: the launch of a ") &&
                                   Contains(" has not returned for 10."));
  }
}

TEST_CASE("an end of NCCL that never returns ends its worker at --comm-timeout") {
  const SmallData data;
  // One that finds the other gone would abort instead.
  const GpuJobResult result =
      run_gpu_job(2, short_run(data, {"--checkpoint-every=off", "--comm-timeout=10s"}),
                  "0:destroy_hangs 1:destroy_hangs");
  CHECK(result.job.status == ddprun::trainer::kExitPeerLost);
  CHECK_THAT(result.job.err, Contains(": ncclCommDestroy has not returned for 10."));
}

TEST_CASE("a GPU that hangs while rank 0's weights are given to all ends its worker, too") {
  const SmallData data;
  // The first work of a GPU is to store the weights that have arrived, in two bytes each.
  const GpuJobResult result =
      run_gpu_job(2,
                  short_run(data, {"--checkpoint-every=off", "--precision=bf16",
                                   "--comm-timeout=5s", "--rendezvous-timeout=10s"}),
                  "1:abort_hangs", 0, "1:1", "DDPRUN_EMULATED_HANGS");
  CHECK(result.job.status == ddprun::trainer::kExitFailure);
  const Json culprit = culprit_of(result);
  CHECK(culprit["rank"] == 1);
  CHECK(culprit.value("exit_code", -1) == ddprun::trainer::kExitFailure);  // it was not killed
  CHECK_THAT(
      culprit["evidence_text"].get<std::string>(),
      StartsWith("train: error: rank 1: ") && Contains("the GPU has not finished its own work"));
}

TEST_CASE("of a rank that hangs and one that waited for it the report names the one that hangs") {
  const SmallData data;
  const TempDir directory;
  const GpuJobResult result =
      run_gpu_job(2,
                  short_run(data, {"--checkpoint-every=off", "--comm-timeout=5s", "--log-every=1",
                                   "--out", directory / "out"}),
                  std::string("1:stall=") + kInSum);
  INFO(result.job.err << result.report);
  CHECK(result.job.status == ddprun::trainer::kExitPeerLost);
  CHECK_THAT(result.job.err, Contains("rank 0 has waited ") &&
                                 Contains(" s for the sum of bucket 0, until its deadline"));
  CHECK_THAT(result.job.err, Contains("(it timed out waiting for another worker)") &&
                                 Contains("rank 1 was still running: it probably hangs"));
  const Json report = Json::parse(result.report, nullptr, false);
  REQUIRE(report.is_object());
  REQUIRE(report["suspects"].size() == 1);
  CHECK(report["suspects"][0]["rank"] == 1);
}

TEST_CASE(
    "a sum or meeting that hangs ends the job at --comm-timeout, with the rank that waited for "
    "it") {
  const SmallData data;
  const TempDir directory;
  // After each step's sum comes a meeting for its line.
  for (const auto& [operation, awaited] :
       {std::pair("11", "the sum of bucket 0"), std::pair("12", "the meeting of all ranks")}) {
    INFO(awaited);
    const GpuJobResult result =
        run_gpu_job(2,
                    short_run(data, {"--checkpoint-every=off", "--comm-timeout=5s", "--log-every=1",
                                     "--out", directory / operation}),
                    std::string("1:hang=") + operation);
    CHECK(result.job.status == ddprun::trainer::kExitPeerLost);
    const Json culprit = culprit_of(result);
    const std::string rank = culprit["rank"].dump();
    CHECK_THAT(last_lines(culprit),
               Contains("rank " + rank + ": gave up in step") &&
                   Contains("rank " + rank + " has waited ") &&
                   Contains(std::string(" s for ") + awaited + ", until its deadline"));
  }
}

TEST_CASE("a step that its sum did not confirm is neither in metrics.jsonl nor in best") {
  const SmallData data;
  const TempDir directory;
  // Eight steps an epoch. After four meetings at the start each step is a sum and a meeting, and
  // two more end an epoch: 37 is the sum of the last step of the second one.
  const Arguments arguments{"--data",     data.path(),     "--batch=8", "--shards=4",
                            "--epochs=3", "--log-every=1", "--out",     directory / "out"};
  const GpuJobResult result = run_gpu_job(2, arguments, "1:error=37");
  INFO(result.job.err << result.report);
  CHECK(result.job.status == ddprun::trainer::kExitPeerLost);
  // The call that fails is that of the sum or that of the meeting behind it.
  CHECK_THAT(result.job.err,
             Contains("rank 1: gave up in step 15: ") || Contains("rank 1: gave up in step 16: "));
  std::ifstream file(directory / "out/metrics.jsonl");
  int steps = 0;
  int epochs = 0;
  for (std::string line; std::getline(file, line);) {
    const Json one = Json::parse(line);
    if (one["type"] == "interval") CHECK(one["step"] == ++steps);
    epochs += one["type"] == "epoch" ? 1 : 0;
  }
  CHECK(steps == 15);
  CHECK(epochs == 1);
  CHECK(std::filesystem::canonical(directory / "out/best").filename() == "step-00000008");
}

TEST_CASE("NCCL that never connects the ranks ends the job at --rendezvous-timeout") {
  const SmallData data;
  Arguments arguments = short_run(data, {"--checkpoint-every=off", "--rendezvous-timeout=10s"});
  // Nor does ncclCommAbort return then.
  const GpuJobResult result = run_gpu_job(2, arguments, "1:no_init 0:abort_hangs 1:abort_hangs");
  CHECK(result.job.status == ddprun::trainer::kExitPeerLost);
  CHECK_THAT(last_lines(culprit_of(result)),
             Contains("NCCL has not connected all ranks") && Contains("NCCL_SOCKET_IFNAME"));
}

TEST_CASE("a rank that never begins to connect by NCCL is named at --rendezvous-timeout") {
  const SmallData data;
  const GpuJobResult result =
      run_gpu_job(2, short_run(data, {"--checkpoint-every=off", "--rendezvous-timeout=10s"}),
                  "1:init_stalls 0:abort_hangs");
  INFO(result.job.err << result.report);
  CHECK(result.job.status == ddprun::trainer::kExitPeerLost);
  CHECK_THAT(result.job.err, Contains("NCCL has not connected all ranks by the deadline: rank 1 "
                                      "on ") &&
                                 Contains("has not begun NCCL; it hangs or is stopped") &&
                                 Contains("rank 1 was still running: it probably hangs"));
}

TEST_CASE("a rank that is killed is the culprit, and after a restart the weights are the same") {
  const SmallData data;
  const TempDir directory;
  const std::string base = weights(on_gpus(short_run(data, {"--checkpoint-every=off"}), 2));
  const Arguments arguments = short_run(data, {"--out", directory / "out", "--checkpoint-every=1"});
  const GpuJobResult result = run_gpu_job(2, arguments, std::string("1:kill=") + kLate, 1);
  INFO(result.job.out << result.job.err << result.report);
  REQUIRE(result.job.status == 0);
  const Json report = Json::parse(result.report);
  check_rank_1_was_killed(report);
  CHECK(report["rounds"][0]["furthest_step"] >= 1);
  CHECK(field(result.outcome(), "weights") == base);
  CHECK(field(result.outcome(), "restarts") == "1");
}
