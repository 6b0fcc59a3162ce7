// Runs of train on emulated GPUs for tests: as a group of workers, and as a job of ddprun.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/trainer/run/worker_group.hpp"
#include "tests/support/job.hpp"

namespace ddprun::test {

/// One epoch: eight steps of four shards.
inline std::vector<std::string> short_run(const SmallData& data,
                                          const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"--data",   data.path(), "--batch",  "8",
                                     "--shards", "4",         "--epochs", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

inline GroupOptions on_gpus(std::vector<std::string> arguments, int world_size = 1) {
  arguments.emplace_back("--device=cuda");
  // Without a value the name is removed: the tests' environment hides GPUs, also emulated ones.
  return {.world_size = world_size,
          .arguments = std::move(arguments),
          .environment = {{"CUDA_VISIBLE_DEVICES", ""}},
          .program = helper("train_emulated")};
}

struct GpuJobResult {
  ChildResult job;
  std::string report;  ///< JSON
  /// Rank 0's final line, in JSON.
  [[nodiscard]] std::string outcome() const {
    const std::string line = last_line(job.out);
    return line.substr(std::min(line.find('{'), line.size()));
  }
};

/// `ddprun --nproc_per_node=N train_emulated --device=cuda ARGUMENTS`. `faults`: of the fake NCCL,
/// as long as the job was not restarted. `trouble`: the value
/// of `name`.
inline GpuJobResult run_gpu_job(int workers, std::vector<std::string> arguments,
                                const std::string& faults = "", int max_restarts = 0,
                                const std::string& trouble = "",
                                const std::string& name = "DDPRUN_EMULATED_FAILS") {
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

/// The culprit in the report; the test ends where it has none.
nlohmann::json culprit_of(const GpuJobResult& result);

/// Checks the report of a job that was restarted once: the culprit of the first round is rank 1,
/// which was killed.
void check_rank_1_was_killed(const nlohmann::json& report);

}  // namespace ddprun::test
