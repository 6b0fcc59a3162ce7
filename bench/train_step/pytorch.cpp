#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bench/support/measure.hpp"
#include "bench/train_step/contender.hpp"
#include "bench/train_step/process.hpp"

namespace ddprun::bench {
namespace {

constexpr const char* kScript = DDPRUN_PYTORCH_STEP;  // in the tree

/// The last line of a rank's output.
nlohmann::json figures_of(const std::string& output) {
  std::string text = text_of(output);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t newline = text.rfind('\n');
  const std::string line = newline == std::string::npos ? text : text.substr(newline + 1);
  const nlohmann::json figures = nlohmann::json::parse(line, nullptr, false);
  if (figures.is_discarded()) throw std::runtime_error("no figures from PyTorch:\n" + text);
  return figures;
}

}  // namespace

StepFigures run_pytorch(const Race& race, const std::string& python) {
  const Case& one = race.one;
  const std::string meeting = race.folder + "/meeting";
  std::remove(meeting.c_str());
  const std::vector<std::string> command{python,
                                         kScript,
                                         "--model=" + one.model,
                                         "--shape=" + one.shape_text(),
                                         "--size=" + one.size,
                                         fmt::format("--tokens={}", one.tokens),
                                         fmt::format("--batch={}", one.batch),
                                         "--optimizer=" + one.optimizer,
                                         "--precision=" + race.precision,
                                         fmt::format("--warm={}", warm_steps(one)),
                                         fmt::format("--steps={}", one.steps),
                                         fmt::format("--data-bytes={}", one.data_bytes()),
                                         "--meeting=" + meeting};
  std::vector<std::unique_ptr<Process>> processes;
  for (int rank = 0; rank < race.ranks; ++rank) {
    // The ranks meet in a file: no port is needed.
    processes.push_back(
        std::make_unique<Process>(command, rank_environment(rank, race.ranks, 0),
                                  fmt::format("{}/pytorch-{}.txt", race.folder, rank)));
  }
  StepFigures figures;
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    processes[rank]->finish();
    const nlohmann::json one_rank = figures_of(processes[rank]->output());
    figures.cpu_ms += one_rank.at("cpu_ms").get<double>() / race.ranks;
    if (rank > 0) continue;
    figures.wall_ms = one_rank.at("wall_ms").get<double>();
    figures.peak_bytes = one_rank.at("peak_bytes").get<std::uint64_t>();
  }
  return figures;
}

std::string pytorch_version(const std::string& python) {
  char pattern[] = "/tmp/bench_train_step.version.XXXXXX";
  const int file = mkstemp(pattern);
  if (file < 0) return {};
  close(file);
  std::string version;
  try {
    Process process({python, kScript, "--version"}, {}, pattern);
    process.finish();
    version = text_of(pattern);
  } catch (const std::runtime_error&) {
    // It cannot import torch, or is not there.
  }
  std::remove(pattern);
  while (!version.empty() && version.back() == '\n') version.pop_back();
  return version;
}

}  // namespace ddprun::bench
