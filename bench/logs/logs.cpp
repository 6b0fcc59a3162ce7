// What logs cost: CPU time of ddprun for output that is shown and kept, the speed of the workers
// that print it, and how late a line comes. Every byte of files and console is checked.
#include <csignal>

#include "bench/logs/run.hpp"
#include "bench/support/measure.hpp"

namespace bench = ddprun::bench;
using bench::Load;
using bench::Measured;
using bench::Run;
using bench::Settings;

namespace {

Load burst(const Settings& settings) {
  return {.workers = settings.workers,
          .bytes = static_cast<std::size_t>(settings.megabytes * 1e6),
          .write_bytes = settings.write_bytes};
}

void check(const Measured& measured, const char* what) {
  if (!measured.complete) std::printf("!! %s: lines are lost or torn\n", what);
}

void measure_bursts(const Settings& settings) {
  struct Way {
    const char* name;
    const char* option;
    const char* console;
    std::vector<double> seconds = {};
    std::vector<double> cpu = {};
    std::vector<double> late = {};
  };
  Way ways[] = {{"own files (--redirects=3)", "--redirects=3", ""},
                {"floor, console is a pipe", "floor", ""},
                {"--tee=3, console is a pipe", "--tee=3", ""},
                {"--fold=always, console is a pipe", "--fold=always", ""},
                {"floor, console is /dev/null", "floor", "/dev/null"},
                {"--tee=3, console is /dev/null", "--tee=3", "/dev/null"}};
  for (int round = 0; round < settings.rounds; ++round) {
    for (Way& way : ways) {
      const auto measured = Run(settings, burst(settings), {way.option}).measure(way.console);
      check(measured, way.name);
      way.seconds.push_back(measured.worker_seconds);
      way.cpu.push_back(measured.cpu_seconds);
      way.late.push_back(measured.late_seconds);
    }
  }
  const double gigabytes = settings.workers * settings.megabytes / 1000;
  std::printf("burst: %d workers, %.0f MB each, lines of %zu bytes, writes of %zu\n",
              settings.workers, settings.megabytes, settings.line_bytes, settings.write_bytes);
  for (const Way& way : ways) {
    std::printf("%-32s %6.2f s  speed %.2f  CPU %.2f s/GB", way.name, bench::median(way.seconds),
                bench::median(ways[0].seconds) / bench::median(way.seconds),
                bench::median(way.cpu) / gigabytes);
    if (*way.console == '\0' && &way != &ways[0])
      std::printf("  last byte shown after %.3f s", bench::median(way.late));
    std::printf("\n");
  }
}

void measure_rates(const Settings& settings) {
  constexpr long kRate = 10'000'000;
  constexpr std::size_t kBytes = 20'000'000;
  constexpr long kRounds = 120'000;  // of arithmetic behind each write
  struct Case {
    const char* name;
    const char* mode;
    int workers;
    long rate;
  };
  for (const Case& one : {Case{"10 MB/s each, on a time table", "paced", settings.workers, kRate},
                          Case{"two that compute in between", "busy", 2, kRounds}}) {
    std::vector<double> null;
    std::vector<double> tee;
    std::vector<double> cpu;
    for (int round = 0; round < settings.rounds; ++round) {
      Load load{.mode = one.mode,
                .workers = one.workers,
                .bytes = kBytes,
                .write_bytes = settings.write_bytes,
                .rate = one.rate,
                .target = "/dev/null"};
      null.push_back(Run(settings, load, {"--tee=3"}).measure("").worker_seconds);
      load.target = "-";
      const auto teed = Run(settings, load, {"--tee=3"}).measure("");
      check(teed, one.name);
      tee.push_back(teed.worker_seconds);
      cpu.push_back(teed.cpu_seconds);
    }
    const double gigabytes = one.workers * static_cast<double>(kBytes) / 1e9;
    std::printf("%-34s %8.2f s  speed against /dev/null %.3f  %.1f MB/s each  CPU %.2f s/GB\n",
                one.name, bench::median(tee), bench::median(null) / bench::median(tee),
                static_cast<double>(kBytes) / 1e6 / bench::median(null),
                bench::median(cpu) / gigabytes);
  }
}

void measure_delay(const Settings& settings) {
  const Load load{.mode = "stamped",
                  .workers = settings.workers,
                  .bytes = 2000 * settings.line_bytes,
                  .write_bytes = 1,
                  .rate = 1000};
  const auto teed = Run(settings, load, {"--tee=3"}).measure("");
  check(teed, "delay");
  std::printf(
      "delay of a line, %d workers with one each ms: median %.2f ms  p99 %.2f ms  max %.2f "
      "ms (%zu lines)\n",
      settings.workers, bench::median(teed.delays_ms), bench::quantile(teed.delays_ms, 0.99),
      bench::quantile(teed.delays_ms, 1), teed.delays_ms.size());
}

/// Output that draws, where no one sees it, beside text.
void measure_drawing(const Settings& settings) {
  struct Way {
    const char* name;
    const char* mode;
    std::vector<double> cpu = {};
  };
  Way ways[] = {{"text", "burst"},
                {"a carriage return for each newline", "returns"},
                {"a backspace in each line", "backspaces"},
                {"random bytes", "random"}};
  for (int round = 0; round < settings.rounds; ++round) {
    for (Way& way : ways) {
      Load load = burst(settings);
      load.mode = way.mode;
      const auto measured = Run(settings, load, {"--output=prefix"}).measure("/dev/null");
      check(measured, way.name);
      way.cpu.push_back(measured.cpu_seconds);
    }
  }
  const double gigabytes = settings.workers * settings.megabytes / 1000;
  for (const Way& way : ways) {
    const double cpu = bench::median(way.cpu);
    std::printf("%-34s CPU %.2f s/GB, %.1f times that of text\n", way.name, cpu / gigabytes,
                cpu / bench::median(ways[0].cpu));
  }
}

constexpr const char* kHelp =
    R"(bench_logs: what shown and kept output costs, beside workers that write their files themselves

usage: bench_logs [--workers=8] [--mb=100] [--line=100] [--write=8192] [--rounds=3] [--quick]
                  [--only=burst|drawing|rate|delay]

  --mb      what each worker prints in a burst, in 10^6 bytes
  --line    bytes of a line, at least 34
  --write   bytes of one write of a worker
  --quick   one round of 20 MB

CPU is that of warden and agent, user and system, until every byte was out. The floor is a loop that
reads, writes a file and writes the console, and looks at no byte. Files are checked line by
line, the console byte for byte. Needs ddprun, bench_logs_worker and
bench_logs_floor beside it.
)";

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string value = word.substr(std::min(word.find('=') + 1, word.size()));
    if (word == "--help") return std::fputs(kHelp, stdout) < 0 ? 1 : 0;
    if (word == "--quick") {
      settings.rounds = 1;
      settings.megabytes = 20;
    } else if (word.starts_with("--workers=")) {
      settings.workers = std::atoi(value.c_str());
    } else if (word.starts_with("--mb=")) {
      settings.megabytes = std::atof(value.c_str());
    } else if (word.starts_with("--line=")) {
      settings.line_bytes = static_cast<std::size_t>(std::atol(value.c_str()));
    } else if (word.starts_with("--write=")) {
      settings.write_bytes = static_cast<std::size_t>(std::atol(value.c_str()));
    } else if (word.starts_with("--rounds=")) {
      settings.rounds = std::atoi(value.c_str());
    } else if (word.starts_with("--only=")) {
      only = value;
    } else {
      std::fputs(kHelp, stderr);
      return 2;
    }
  }
  if (settings.workers < 1 || settings.workers > 10 || settings.rounds < 1 ||
      settings.megabytes <= 0 || settings.line_bytes < bench::kLineHead + 2) {
    std::fputs(kHelp, stderr);
    return 2;
  }
  setenv("OMP_NUM_THREADS", "1", 1);
  signal(SIGPIPE, SIG_IGN);
  if (only.empty() || only == "burst") measure_bursts(settings);
  if (only.empty() || only == "drawing") measure_drawing(settings);
  if (only.empty() || only == "rate") measure_rates(settings);
  if (only.empty() || only == "delay") measure_delay(settings);
}
