// What logs cost: CPU time of ddprun for output that is shown and kept, the speed of the workers
// that print it, and how late a line comes. Every byte of files and console is checked.
#include <signal.h>
#include <sys/wait.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "bench/logs/board.hpp"
#include "bench/support/measure.hpp"

namespace bench = ddprun::bench;

namespace {

struct Settings {
  int workers = 8;
  double megabytes = 100;
  std::size_t line_bytes = 100;
  std::size_t write_bytes = 8192;
  int rounds = 3;
};

struct Load {
  std::string mode = "burst";
  int workers = 8;
  std::size_t bytes = 0;  // of each worker
  std::size_t write_bytes = 8192;
  long rate = 0;
  std::string target = "-";
};

struct Measured {
  bool complete = false;      // every line in its file, whole and in order, and on the console
  double cpu_seconds = 0;     // of warden and agent, until everything was out
  double worker_seconds = 0;  // of the slowest worker
  double late_seconds = 0;    // from the last write of a worker to the last byte on the console
  std::vector<double> delays_ms;
};

constexpr double kGiveUpSeconds = 120;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench_logs: %s\n", what.c_str());
  std::exit(1);
}

/// User and system time of a process and, of ddprun, its agent: the child of the same name.
double cpu_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto end = text.rfind(')');
  if (end == std::string::npos) return 0;
  long user = 0;
  long system = 0;
  std::sscanf(text.c_str() + end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user,
              &system);
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double cpu_of_ddprun(pid_t warden) {
  double cpu = cpu_of(warden);
  std::ifstream file("/proc/" + std::to_string(warden) + "/task/" + std::to_string(warden) +
                     "/children");
  pid_t child = 0;
  while (file >> child) cpu += cpu_of(child);
  return cpu;
}

/// Reads the console until its end.
struct ConsoleReader {
  std::atomic<std::size_t> bytes{0};
  std::atomic<std::int64_t> last_ns{0};
  std::vector<double> delays_ms;

  void run(int fd, bool stamped) {
    std::vector<char> buffer(1 << 18);
    std::string text;
    ssize_t n = 0;
    while ((n = read(fd, buffer.data(), buffer.size())) > 0) {
      const auto now = bench::now_ns();
      last_ns = now;
      bytes += static_cast<std::size_t>(n);
      if (!stamped) continue;
      text.append(buffer.data(), static_cast<std::size_t>(n));
      std::size_t at = 0;
      for (auto end = text.find('\n'); end != text.npos; end = text.find('\n', at)) {
        // [default0]:00 00000001 0000000123456789012 xxx
        const auto colon = text.find(':', at);
        if (colon != text.npos && end - colon > bench::kLineHead) {
          const auto stamp = std::strtoll(text.c_str() + colon + 13, nullptr, 10);
          if (stamp > 0) delays_ms.push_back(static_cast<double>(now - stamp) / 1e6);
        }
        at = end + 1;
      }
      text.erase(0, at);
    }
  }
};

bool file_is_whole(const std::string& path, int rank, std::size_t bytes, std::size_t line_bytes) {
  std::ifstream file(path);
  std::string line;
  std::size_t seen = 0;
  for (long number = 0; std::getline(file, line); ++number) {
    char head[32];
    std::snprintf(head, sizeof head, "%02d %08ld ", rank, number);
    if (line.size() + 1 != line_bytes || line.compare(0, std::strlen(head), head) != 0)
      return false;
    seen += line.size() + 1;
  }
  return seen >= bytes;
}

class Run {
 public:
  /// Options of ddprun, or the word `floor`.
  Run(const Settings& settings, Load load, std::vector<std::string> options)
      : settings_(settings), load_(std::move(load)), options_(std::move(options)) {}

  /// `console` as a file to open; empty: a pipe that is read.
  Measured measure(const std::string& console) {
    char path[] = "/tmp/bench_logs_XXXXXX";
    if (mkdtemp(path) == nullptr) fail("no temporary folder");
    folder_ = path;
    Measured measured = run(console);
    std::filesystem::remove_all(folder_);
    return measured;
  }

 private:
  [[nodiscard]] bool floor() const { return options_.front() == "floor"; }
  [[nodiscard]] bool teed() const {
    return std::find(options_.begin(), options_.end(), "--tee=3") != options_.end();
  }

  [[nodiscard]] std::vector<std::string> command(const std::string& board) const {
    const std::string own = bench::own_folder();
    std::vector<std::string> words;
    if (floor()) {
      words = {own + "/bench_logs_floor", std::to_string(load_.workers), folder_};
      add_worker(words, own, board);
      return words;
    }
    words = {own + "/ddprun", "--nproc-per-node", std::to_string(load_.workers),
             "--log-dir=" + folder_ + "/logs"};
    words.insert(words.end(), options_.begin(), options_.end());
    add_worker(words, own, board);
    return words;
  }

  void add_worker(std::vector<std::string>& words, const std::string& own,
                  const std::string& board) const {
    for (const std::string& word :
         {own + "/bench_logs_worker", board, load_.mode, std::to_string(load_.bytes),
          std::to_string(settings_.line_bytes), std::to_string(load_.write_bytes),
          std::to_string(load_.rate), load_.target})
      words.push_back(word);
  }

  Measured run(const std::string& console) {
    const std::string board_file = folder_ + "/board";
    bench::Board* board = bench::map_board(board_file);
    if (board == nullptr) fail("no shared file");
    int fds[2] = {-1, -1};
    if (pipe2(fds, O_CLOEXEC) != 0) fail("no pipe");
    if (!console.empty()) {
      close(fds[1]);
      fds[1] = open(console.c_str(), O_WRONLY | O_CLOEXEC);
    }
    const std::vector<std::string> words = command(board_file);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    pid_t pid = 0;
    if (posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ) != 0)
      fail("ddprun does not start");
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    ConsoleReader reader;
    std::thread reading([&] { reader.run(fds[0], load_.mode == "stamped"); });

    wait_until([&] { return board->ready == load_.workers; }, "the workers do not start");
    const double cpu_before = cpu(pid);
    board->start = 1;
    wait_until([&] { return board->finished == load_.workers; }, "the workers do not finish");
    const std::size_t lines = (load_.bytes + settings_.line_bytes - 1) / settings_.line_bytes;
    const std::size_t prefix = floor()  ? 0
                               : teed() ? std::strlen("[default0]:")
                                        : std::strlen("[rank0] ");
    const std::size_t shown =
        static_cast<std::size_t>(load_.workers) * lines * (settings_.line_bytes + prefix);
    const bool counted = console.empty() && load_.target == "-" && !redirected();
    if (counted) {
      wait_until([&] { return reader.bytes >= shown; }, "not everything is shown");
    } else {
      usleep(500'000);
    }
    Measured measured;
    measured.cpu_seconds = cpu(pid) - cpu_before;
    board->leave = 1;
    int status = 0;
    waitpid(pid, &status, 0);
    reading.join();
    close(fds[0]);
    std::int64_t last = 0;
    for (int rank = 0; rank < load_.workers; ++rank) {
      const auto took = static_cast<double>(board->ended_ns[rank] - board->began_ns[rank]) / 1e9;
      measured.worker_seconds = std::max(measured.worker_seconds, took);
      last = std::max(last, board->ended_ns[rank]);
    }
    measured.late_seconds = static_cast<double>(reader.last_ns - last) / 1e9;
    measured.delays_ms = std::move(reader.delays_ms);
    measured.complete = status == 0 && (!counted || reader.bytes == shown) && files_are_whole();
    return measured;
  }

  [[nodiscard]] double cpu(pid_t pid) const { return floor() ? cpu_of(pid) : cpu_of_ddprun(pid); }
  [[nodiscard]] bool redirected() const {
    return std::find(options_.begin(), options_.end(), "--redirects=3") != options_.end();
  }

  bool files_are_whole() const {
    if (load_.target != "-" || (!teed() && !redirected())) return true;
    bool whole = true;
    for (int rank = 0; rank < load_.workers; ++rank) {
      const std::string file =
          folder_ + "/logs/latest/attempt_0/" + std::to_string(rank) + "/stdout.log";
      whole = whole && file_is_whole(file, rank, load_.bytes, settings_.line_bytes);
    }
    return whole;
  }

  template <class Condition>
  static void wait_until(Condition condition, const char* otherwise) {
    const auto limit = bench::now_ns() + static_cast<std::int64_t>(kGiveUpSeconds * 1e9);
    while (!condition()) {
      if (bench::now_ns() > limit) fail(otherwise);
      usleep(500);
    }
  }

  const Settings& settings_;
  Load load_;
  std::vector<std::string> options_;
  std::string folder_;
};

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

constexpr const char* kHelp =
    R"(bench_logs: what shown and kept output costs, beside workers that write their files themselves

usage: bench_logs [--workers=8] [--mb=100] [--line=100] [--write=8192] [--rounds=3] [--quick]
                  [--only=burst|rate|delay]

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
  if (only.empty() || only == "rate") measure_rates(settings);
  if (only.empty() || only == "delay") measure_delay(settings);
}
