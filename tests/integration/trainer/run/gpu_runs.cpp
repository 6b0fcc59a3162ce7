#include "tests/integration/trainer/run/gpu_runs.hpp"

#include <csignal>
#include <nlohmann/json.hpp>

namespace ddprun::test {

nlohmann::json culprit_of(const GpuJobResult& result) {
  INFO(result.job.err << result.report);
  const auto report = nlohmann::json::parse(result.report, nullptr, false);
  REQUIRE(report.is_object());
  REQUIRE(report["culprit"].is_object());
  return report["culprit"];
}

void check_rank_1_was_killed(const nlohmann::json& report) {
  REQUIRE(report["rounds"].size() == 2);
  CHECK(report["rounds"][0]["culprit"]["rank"] == 1);
  CHECK(report["rounds"][0]["culprit"]["signal"] == SIGKILL);
}

}  // namespace ddprun::test
