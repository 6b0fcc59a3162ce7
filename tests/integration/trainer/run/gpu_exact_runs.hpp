// Runs with --exact on emulated GPUs, for tests.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/trainer/run/gpu_runs.hpp"

namespace ddprun::test {

using Arguments = std::vector<std::string>;

/// `arguments` with --exact, without checkpoints. `shards`: of a step.
inline Arguments exact_run(Arguments arguments, int shards = 4) {
  arguments.insert(arguments.end(),
                   {"--exact", "--shards=" + std::to_string(shards), "--checkpoint-every=off",
                    "--rendezvous-timeout=3m", "--comm-timeout=3m"});
  return arguments;
}

/// One worker, which accumulates all shards, against groups of so many: the same weights. Gives the
/// final line of the one.
inline std::string check_exact(const Arguments& run, const std::vector<int>& workers) {
  const std::string one = train(on_gpus(run));
  for (const int count : workers) {
    INFO(count << " workers");
    CHECK(weights(on_gpus(run, count)) == field(one, "weights"));
  }
  return one;
}

/// A run of more than one epoch, on one GPU and on two: the same weights whether the data sets stay
/// on the GPU or each step sends its samples.
inline void check_stays(Arguments run) {
  run.insert(run.end(), {"--exact", "--checkpoint-every=off"});
  const auto of_run = [&](int workers, const char* free) {
    GroupOptions options = on_gpus(run, workers);
    options.json = false;
    if (free != nullptr) options.environment.emplace_back("DDPRUN_EMULATED_FREE", free);
    const ChildResult first = WorkerGroup(options).wait().front();
    INFO(first.out << first.err);
    REQUIRE(first.status == 0);
    CHECK((first.out.find("kB of it for data sets), ") != std::string::npos) == (free == nullptr));
    const std::size_t at = first.out.rfind("weights: ");
    REQUIRE(at != std::string::npos);
    return first.out.substr(at, first.out.find_first_of(" \n", at + 9) - at);
  };
  const std::string sent = of_run(1, "0");
  for (const int workers : {1, 2}) CHECK(of_run(workers, nullptr) == sent);
}

/// `one`: the final line of `run` on a GPU. The CPU adds up in another order.
inline void check_learned_as_on_cpu(Arguments run, const std::string& one) {
  std::erase(run, "--exact");
  run.emplace_back("--device=cpu");
  const std::string cpu = train({.arguments = std::move(run)});
  INFO(cpu << "\n" << one);
  for (const char* loss : {"train_loss", "test_loss"})
    CHECK(std::stod(field(one, loss)) == Approx(std::stod(field(cpu, loss))).epsilon(1e-4));
}

}  // namespace ddprun::test
