// Jobs of ddprun with train on emulated GPUs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/integration/trainer/run/gpu_runs.hpp"
#include "tests/support/child.hpp"

namespace ddprun::test {

struct GpuJobResult {
  ChildResult job;
  std::string report;  ///< JSON
  /// Rank 0's final line, in JSON.
  [[nodiscard]] std::string outcome() const;
};

/// `ddprun --nproc_per_node=N train_emulated --device=cuda ARGUMENTS`. `faults`: what the fake
/// NCCL does wrong, as long as the job was not restarted. `trouble`: the value of `name`.
GpuJobResult run_gpu_job(int workers, std::vector<std::string> arguments,
                         const std::string& faults = "", int max_restarts = 0,
                         const std::string& trouble = "",
                         const std::string& name = "DDPRUN_EMULATED_FAILS");

/// The culprit in the report; the test ends where it has none.
nlohmann::json culprit_of(const GpuJobResult& result);

/// Checks the report of a job that was restarted once: the culprit of the first round is rank 1,
/// which was killed.
void check_rank_1_was_killed(const nlohmann::json& report);

}  // namespace ddprun::test
