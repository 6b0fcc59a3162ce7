// Runs of train on emulated GPUs for tests, as a group of workers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/integration/trainer/run/worker_group.hpp"

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

}  // namespace ddprun::test
