// Jobs of ddprun on emulated GPUs that compute much.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/both/gpu_job.hpp"

using namespace ddprun::test;

using Arguments = std::vector<std::string>;

TEST_CASE("resnet18 with --exact has the same weights after a rank was killed, on other GPUs") {
  const SmallData data(8);
  const TempDir directory;
  const Arguments arguments{"--model=resnet18", "--data",     data.path(),    "--batch=2",
                            "--exact",          "--shards=4", "--max-steps=3"};
  const auto with = [&](const Arguments& more) {
    Arguments all = arguments;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::string base = weights(on_gpus(with({"--checkpoint-every=off"})));
  // The first four operations are meetings at the start; a step has two for each bucket, and a
  // meeting.
  const GpuJobResult result =
      run_gpu_job(2, with({"--out", directory / "out", "--checkpoint-every=1"}), "1:kill=18", 1);
  INFO(result.job.out << result.job.err << result.report);
  REQUIRE(result.job.status == 0);
  const auto report = nlohmann::json::parse(result.report);
  REQUIRE(report["rounds"].size() == 2);
  CHECK(report["rounds"][0]["furthest_step"] >= 1);
  CHECK(field(result.outcome(), "weights") == base);
  CHECK(field(result.outcome(), "restarts") == "1");
}
