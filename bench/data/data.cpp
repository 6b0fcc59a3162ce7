// A training step of `train` with data in files against the same data in memory: JPEG files that
// are decoded again in each epoch, CIFAR-10's binary files, TSV. Both sides take turns.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <stdexcept>

#include "bench/data/sets.hpp"
#include "bench/support/measure.hpp"
#include "bench/support/temporary_folder.hpp"
#include "bench/train_step/ranks.hpp"

namespace bench = ddprun::bench;

namespace {

using Words = std::vector<std::string>;

/// A kind of files and a model. A rank takes `batch` samples a step; the steps of two ranks are
/// less than an epoch.
struct Case {
  std::string name;
  Words model;
  int batch = 32;
  int warm_steps = 20;
  int steps = 140;
  std::function<void(const std::string& folder)> write;
  Words in_files = {};               ///< beside --data=FOLDER
  bool is_folder_in_memory = false;  ///< the same folder, else generated data
  Words in_memory = {};
};

const std::vector<Case>& all_cases() {
  static const std::string shape = fmt::format("--image-shape={}", bench::kPictureShape);
  static const std::vector<Case> cases{
      {.name = "jpeg-lenet",
       .model = {"--model=lenet", shape},
       .write = bench::write_jpegs,
       .in_files = {"--data-memory=1"},
       .is_folder_in_memory = true},
      {.name = "jpeg-resnet18",
       .model = {"--model=resnet18", shape},
       .warm_steps = 3,
       .steps = 8,
       .write = bench::write_jpegs,
       .in_files = {"--data-memory=1"},
       .is_folder_in_memory = true},
      {.name = "cifar-lenet",
       .model = {"--model=lenet"},
       .write = bench::write_cifar,
       .in_memory = {shape}},
      {.name = "tsv-textclf",
       .model = {"--model=textclf", "--size=tiny",
                 fmt::format("--max-tokens={}", bench::kSentences.tokens)},
       .write = bench::write_tsv,
       .in_memory = {fmt::format("--sentences={}", bench::kSentences.count)}},
  };
  return cases;
}

struct Options {
  std::vector<std::string> cases;
  std::vector<int> ranks{1, 2};
  int rounds = 5;
};

/// The rounds of one side.
struct Series {
  std::vector<double> cpu_ms, wall_ms;
  void add(const bench::StepFigures& figures) {
    cpu_ms.push_back(figures.cpu_ms);
    wall_ms.push_back(figures.wall_ms);
  }
};

bench::StepFigures run(const Case& one, int ranks, const std::string& folder, Words source) {
  Words command{bench::own_folder() + "/train",
                fmt::format("--batch={}", one.batch),
                "--device=cpu",
                "--lr=0.0001",
                "--schedule=constant",
                "--epochs=1000000",
                "--lanes=1",
                "--checkpoint-every=off",
                "--resume=never",
                "--quiet"};
  command.insert(command.end(), one.model.begin(), one.model.end());
  command.insert(command.end(), source.begin(), source.end());
  return bench::Ranks({.command = command, .count = ranks, .folder = folder})
      .measure(one.warm_steps, one.warm_steps + one.steps);
}

void run_case(const Case& one, const Options& options) {
  const bench::TemporaryFolder folder("bench_data");
  const std::string data = folder.path() + "/data";
  one.write(data);
  Words in_files{"--data=" + data};
  in_files.insert(in_files.end(), one.in_files.begin(), one.in_files.end());
  Words in_memory{one.is_folder_in_memory ? "--data=" + data : "--data=generated"};
  in_memory.insert(in_memory.end(), one.in_memory.begin(), one.in_memory.end());
  for (const int ranks : options.ranks) {
    Series files;
    Series memory;
    for (int round = 0; round < options.rounds; ++round) {
      // Another side begins each round: what ran before is not always the same.
      for (const bool is_files : {round % 2 == 0, round % 2 != 0})
        (is_files ? files : memory)
            .add(run(one, ranks, folder.path(), is_files ? in_files : in_memory));
    }
    std::printf("%-14s %5d %10.2f %8.2f %10.2f %8.2f %9.3fx %8.3fx\n", one.name.c_str(), ranks,
                bench::median(files.wall_ms), bench::median(files.cpu_ms),
                bench::median(memory.wall_ms), bench::median(memory.cpu_ms),
                bench::median_ratio(files.wall_ms, memory.wall_ms),
                bench::median_ratio(files.cpu_ms, memory.cpu_ms));
    std::fflush(stdout);
  }
}

std::vector<std::string> names_of_cases() {
  std::vector<std::string> names;
  for (const Case& one : all_cases()) names.push_back(one.name);
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "A training step of `train` with data in files against the same data in memory, in turns.");
  app.footer(
      "Wall, CPU: of one step (CPU: of one rank, the threads that decode included), means over a "
      "run's steps, medians over the rounds. A ratio is the median of the rounds' ratios, above 1 "
      "where files take longer. One lane a rank. JPEG files are decoded again in each epoch "
      "(--data-memory=1), against the same folder held decoded; CIFAR-10's binary files and TSV "
      "are read at the start, and stand against generated data.");
  Options options;
  app.add_option("--case", options.cases, "only these")->check(CLI::IsMember(names_of_cases()));
  app.add_option("--ranks", options.ranks, "numbers of ranks")
      ->check(CLI::Range(1, 2))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "turns of each side")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    std::printf("medians of %d rounds, sides in turns\n\n", options.rounds);
    std::printf("%-14s %5s %19s %19s %19s\n", "", "ranks", "files: wall, CPU ms",
                "memory: wall, CPU ms", "ratio: wall, CPU");
    for (const Case& one : all_cases()) {
      const auto& chosen = options.cases;
      if (chosen.empty() || std::find(chosen.begin(), chosen.end(), one.name) != chosen.end())
        run_case(one, options);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_data: %s\n", error.what());
    return 1;
  }
  return 0;
}
