#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "bench/support/measure.hpp"
#include "bench/train_step/contender.hpp"
#include "bench/train_step/ranks.hpp"

namespace ddprun::bench {
namespace {

std::vector<std::string> command_of(const Race& race) {
  const Case& one = race.one;
  std::vector<std::string> command{own_folder() + "/train",
                                   "--model=" + one.model,
                                   fmt::format("--batch={}", one.batch),
                                   "--optimizer=" + one.optimizer,
                                   "--precision=" + race.precision,
                                   "--lr=0.0001",
                                   "--schedule=constant",
                                   "--epochs=1000000",
                                   "--lanes=1",
                                   "--comm-timeout=10m",
                                   "--rendezvous-timeout=2m",
                                   "--checkpoint-every=off",
                                   "--resume=never",
                                   "--quiet"};
  if (one.tokens > 0) {
    command.push_back("--size=" + one.size);
    command.push_back(fmt::format("--max-tokens={}", one.tokens));
    command.push_back(fmt::format("--sentences={}", one.texts()));
  } else {
    command.push_back(one.masks ? "--image-shape=" + one.shape_text() : "--data=" + race.folder);
  }
  return command;
}

/// Milliseconds in the lines that oneDNN prints for each primitive: the last of their fields.
double library_ms(const std::string& lines) {
  double sum = 0;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    const std::string line = lines.substr(begin, end - begin);
    if (line.starts_with("onednn_verbose,") && line.find("exec,") != std::string::npos)
      sum += std::strtod(line.c_str() + line.rfind(',') + 1, nullptr);
    begin = end + 1;
  }
  return sum;
}

Ranks::Settings ranks_of(const Race& race, Process::Environment environment) {
  return {.command = command_of(race),
          .count = race.ranks,
          .folder = race.folder,
          .environment = std::move(environment)};
}

}  // namespace

int warm_steps(const Case& one) {
  if (one.steps == 1) return 1;  // for its memory
  return one.steps >= 20 ? 20 : 3;
}

StepFigures run_ours(const Race& race) {
  const int warm = warm_steps(race.one);
  return Ranks(ranks_of(race, {})).measure(warm, warm + race.one.steps);
}

double library_share(const Race& race) {
  const int warm = warm_steps(race.one);
  Ranks ranks(ranks_of(race, {{"ONEDNN_VERBOSE", "1"}}));
  ranks.wait_for(warm);
  const auto begin = Clock::now();
  const std::size_t from = std::filesystem::file_size(ranks.first().output());
  ranks.wait_for(warm + race.one.steps);
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  const std::size_t to = std::filesystem::file_size(ranks.first().output());
  const std::string lines = text_of(ranks.first().output()).substr(from, to - from);
  return library_ms(lines) / ms;
}

}  // namespace ddprun::bench
