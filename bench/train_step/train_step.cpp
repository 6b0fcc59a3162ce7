// A training step of `train` against the same model in PyTorch. Both sides take turns; CPU time is
// the figure to rely on, because a machine that does other work changes wall times more.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bench/support/measure.hpp"
#include "bench/support/temporary_folder.hpp"
#include "bench/train_step/contender.hpp"

namespace bench = ddprun::bench;

namespace {

struct Options {
  std::vector<std::string> models;
  std::vector<std::string> precisions{"fp32", "bf16"};
  std::vector<int> ranks{1, 2};
  std::string python;
  int rounds = 5;
  bool json = false;
};

/// The rounds of one side.
struct Series {
  std::vector<double> cpu_ms, wall_ms;
  std::uint64_t peak_bytes = 0;

  void add(const bench::StepFigures& figures) {
    cpu_ms.push_back(figures.cpu_ms);
    wall_ms.push_back(figures.wall_ms);
    peak_bytes = std::max(peak_bytes, figures.peak_bytes);
  }
};

class Table {
 public:
  explicit Table(bool json) : json_(json) {
    if (json_) return;
    std::printf("%-11s %-5s %5s %21s %21s %14s %8s %15s\n", "", "", "ranks", "train: CPU, wall ms",
                "PyTorch: CPU, wall ms", "ratio CPU,wall", "oneDNN", "peak MB, theirs");
  }

  void row(const bench::Race& race, const Series& ours, const Series& theirs, double share) const {
    const double cpu = bench::median(ours.cpu_ms);
    const double wall = bench::median(ours.wall_ms);
    const bool raced = !theirs.cpu_ms.empty();
    const double their_cpu = bench::median(theirs.cpu_ms);
    const double their_wall = bench::median(theirs.wall_ms);
    const double cpu_ratio = bench::median_ratio(theirs.cpu_ms, ours.cpu_ms);
    const double wall_ratio = bench::median_ratio(theirs.wall_ms, ours.wall_ms);
    if (json_) {
      nlohmann::json line = {{"model", race.one.name},
                             {"precision", race.precision},
                             {"ranks", race.ranks},
                             {"cpu_ms", cpu},
                             {"wall_ms", wall},
                             {"peak_bytes", ours.peak_bytes},
                             {"rounds", ours.cpu_ms.size()},
                             {"least_cpu_ms", least(ours.cpu_ms)}};
      if (share > 0) line["library_share"] = share;
      if (raced)
        line["pytorch"] = {{"cpu_ms", their_cpu},
                           {"wall_ms", their_wall},
                           {"cpu_ratio", cpu_ratio},
                           {"wall_ratio", wall_ratio},
                           {"peak_bytes", theirs.peak_bytes},
                           {"least_cpu_ms", least(theirs.cpu_ms)}};
      std::printf("%s\n", line.dump().c_str());
    } else {
      std::string text = fmt::format("{:<11} {:<5} {:>5} {:>10.1f} {:>10.1f}", race.one.name,
                                     race.precision, race.ranks, cpu, wall);
      text += raced ? fmt::format(" {:>10.1f} {:>10.1f} {:>6.2f}x {:>6.2f}x", their_cpu, their_wall,
                                  cpu_ratio, wall_ratio)
                    : fmt::format(" {:>10} {:>10} {:>7} {:>7}", "-", "-", "-", "-");
      text += share > 0 ? fmt::format(" {:>6.0f} %", share * 100) : fmt::format(" {:>8}", "");
      text += fmt::format(" {:>7}", ours.peak_bytes >> 20);
      if (raced) text += fmt::format(" {:>7}", theirs.peak_bytes >> 20);
      std::printf("%s\n", text.c_str());
    }
    std::fflush(stdout);
  }

 private:
  static double least(const std::vector<double>& values) {
    return *std::min_element(values.begin(), values.end());
  }
  bool json_;
};

void run_case(const bench::Case& one, const Options& options, const Table& table) {
  const bench::TemporaryFolder folder("bench_train_step");
  bench::write_data(one, folder.path());
  for (const std::string& precision : options.precisions) {
    for (const int ranks : options.ranks) {
      const bench::Race race{one, precision, ranks, folder.path()};
      Series ours;
      Series theirs;
      for (int round = 0; round < options.rounds; ++round) {
        ours.add(bench::run_ours(race));
        if (!options.python.empty()) theirs.add(bench::run_pytorch(race, options.python));
      }
      table.row(race, ours, theirs, ranks == 1 && one.steps > 1 ? bench::library_share(race) : 0);
    }
  }
}

std::vector<const bench::Case*> chosen(const std::vector<std::string>& names) {
  std::vector<const bench::Case*> cases;
  for (const bench::Case& one : bench::all_cases())
    if (names.empty() && one.by_default) cases.push_back(&one);
  for (const std::string& name : names) {
    const auto& all = bench::all_cases();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const bench::Case& one) { return one.name == name; });
    if (found == all.end())
      throw std::runtime_error(fmt::format("no model is called {} (see --help)", name));
    cases.push_back(&*found);
  }
  return cases;
}

std::string default_python() {
  const char* named = std::getenv("DDPRUN_BENCH_PYTHON");
  return named != nullptr ? named : "python3";
}

std::string names_of_cases() {
  std::string names;
  for (const bench::Case& one : bench::all_cases()) names += (names.empty() ? "" : ", ") + one.name;
  return names;
}

/// What the figures depend on, beside the machine.
void print_surroundings(const Options& options, const std::string& version) {
  if (options.json) return;
  std::printf("PyTorch: %s\n", version.empty() ? "none" : version.c_str());
  for (const char* name : {"OPENBLAS_CORETYPE", "MKL_DEBUG_CPU_TYPE", "ONEDNN_MAX_CPU_ISA"})
    if (const char* value = std::getenv(name)) std::printf("%s=%s\n", name, value);
  std::printf("one thread a rank, medians of %d rounds, sides in turns; CPU: of one rank\n\n",
              options.rounds);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A training step of `train` against the same model in PyTorch, in turns.");
  app.footer(
      "CPU, wall: of one step, means over a run's steps, medians over the rounds. A ratio is the "
      "median of the rounds' ratios, above 1 where `train` is faster. oneDNN: share of our time "
      "that is spent in its primitives. Peak: resident memory of rank 0, which includes the data "
      "set on both sides. PyTorch runs at its best settings: see pytorch_step.py.");
  Options options;
  options.python = default_python();
  app.add_option("--model", options.models, "only these: " + names_of_cases());
  app.add_option("--precision", options.precisions, "fp32, bf16")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  app.add_option("--ranks", options.ranks, "numbers of ranks")
      ->check(CLI::Range(1, 4))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "turns of each side")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--python", options.python,
                 "an interpreter with torch (or DDPRUN_BENCH_PYTHON); empty: only our side")
      ->capture_default_str();
  app.add_flag("--json", options.json, "one JSON object per line");
  CLI11_PARSE(app, argc, argv);
  try {
    const std::vector<const bench::Case*> cases = chosen(options.models);
    std::string version;
    if (!options.python.empty()) {
      version = bench::pytorch_version(options.python);
      if (version.empty()) {
        std::fprintf(stderr, "bench_train_step: without PyTorch: %s cannot import torch\n",
                     options.python.c_str());
        options.python.clear();
      }
    }
    print_surroundings(options, version);
    const Table table(options.json);
    for (const bench::Case* one : cases) run_case(*one, options, table);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_train_step: %s\n", error.what());
    return 1;
  }
  return 0;
}
