// One run of ddprun, or of the floor, with workers that print: starts it, reads its console, checks
// every byte and counts CPU time.
#pragma once

#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/logs/board.hpp"
#include "bench/support/measure.hpp"

namespace ddprun::bench {

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

inline constexpr double kGiveUpSeconds = 120;

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "bench_logs: %s\n", what.c_str());
  std::exit(1);
}

/// User and system time of a process and, of ddprun, its agent: the child of the same name.
inline double cpu_of(pid_t pid) {
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

inline double cpu_of_ddprun(pid_t warden) {
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
      const auto now = now_ns();
      last_ns = now;
      bytes += static_cast<std::size_t>(n);
      if (!stamped) continue;
      text.append(buffer.data(), static_cast<std::size_t>(n));
      std::size_t at = 0;
      for (auto end = text.find('\n'); end != text.npos; end = text.find('\n', at)) {
        // [rank0] 00 00000001 0000000123456789012 xxx
        const auto prefix_end = text.find(' ', at);
        if (prefix_end != text.npos && end - prefix_end > kLineHead) {
          const auto stamp = std::strtoll(text.c_str() + prefix_end + 13, nullptr, 10);
          if (stamp > 0) delays_ms.push_back(static_cast<double>(now - stamp) / 1e6);
        }
        at = end + 1;
      }
      text.erase(0, at);
    }
  }
};

inline bool file_is_whole(const std::string& path, int rank, std::size_t bytes,
                          std::size_t line_bytes) {
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
    const std::string own = own_folder();
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
    Board* board = map_board(board_file);
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
    const std::size_t prefix = floor() ? 0 : std::strlen("[rank0] ");
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
    const auto limit = now_ns() + static_cast<std::int64_t>(kGiveUpSeconds * 1e9);
    while (!condition()) {
      if (now_ns() > limit) fail(otherwise);
      usleep(500);
    }
  }

  const Settings& settings_;
  Load load_;
  std::vector<std::string> options_;
  std::string folder_;
};

}  // namespace ddprun::bench
