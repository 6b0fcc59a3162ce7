#include "tests/both/gpu_job.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/support/job.hpp"

namespace ddprun::test {

std::string GpuJobResult::outcome() const {
  const std::string line = last_line(job.out);
  return line.substr(std::min(line.find('{'), line.size()));
}

GpuJobResult run_gpu_job(int workers, std::vector<std::string> arguments, const std::string& faults,
                         int max_restarts, const std::string& trouble, const std::string& name) {
  const TempDir folder;
  const std::string report = (folder / "report.json").string();
  std::vector<std::string> words{program("ddprun"),
                                 "--nproc_per_node=" + std::to_string(workers),
                                 "--max-restarts=" + std::to_string(max_restarts),
                                 "--report=" + report,
                                 "--grace-period=5",
                                 "/bin/sh",
                                 "-c",
                                 "test \"$TORCHELASTIC_RESTART_COUNT\" = 0 || "
                                 "unset DDPRUN_FAKE_NCCL; exec \"$@\"",
                                 "sh",
                                 helper("train_emulated"),
                                 "--device=cuda",
                                 "--json",
                                 "--quiet"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  Job job;
  ChildOptions settings = job.settings();
  settings.limit = std::chrono::minutes(5);
  settings.environment.emplace_back("DDPRUN_FAKE_NCCL", faults);
  settings.environment.emplace_back("CUDA_VISIBLE_DEVICES", "");
  settings.environment.emplace_back(name, trouble);
  GpuJobResult result{run(words, settings), {}};
  CHECK_FALSE(result.job.timed_out);
  CHECK(processes_with(job.mark_entry()).empty());
  std::ifstream stream(report);
  result.report.assign(std::istreambuf_iterator<char>(stream), {});
  return result;
}

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
