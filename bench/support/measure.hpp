// What the benchmarks share: running commands, medians, interleaved rounds. Times are ratios within
// one run: the machines are shared, so a lone number says little.
#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace ddprun::bench {

using Clock = std::chrono::steady_clock;

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// The median of the rounds' ratios: what slows a machine for a while hits both sides of a round.
inline double median_ratio(const std::vector<double>& over, const std::vector<double>& under) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < over.size() && i < under.size(); ++i)
    ratios.push_back(over[i] / under[i]);
  return median(ratios);
}

inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

/// Runs a command with its output discarded and waits; milliseconds from before the spawn to after
/// the wait, negative when it did not end with exit code 0.
inline double run_ms(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1, 0);
  const auto begin = Clock::now();
  pid_t pid = 0;
  int status = -1;
  const bool ok = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ) == 0 &&
                  waitpid(pid, &status, 0) == pid && status == 0;
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  posix_spawn_file_actions_destroy(&actions);
  return ok ? ms : -ms;
}

/// The first of `names` found on PATH; empty: none.
inline std::string find_program(const std::vector<std::string>& names) {
  const char* path = std::getenv("PATH");
  for (const std::string& name : names) {
    std::string rest = path != nullptr ? path : "";
    while (!rest.empty()) {
      const std::size_t colon = rest.find(':');
      const std::string candidate = rest.substr(0, colon) + "/" + name;
      if (access(candidate.c_str(), X_OK) == 0) return candidate;
      rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    }
  }
  return {};
}

/// As find_program, but of a program that passes a trial with `arguments`: some distributions'
/// cannot start anything. One that is there and fails is left out with a word.
inline std::string find_working(const std::string& name, std::vector<std::string> arguments) {
  const std::string path = find_program({name});
  if (path.empty()) return {};
  arguments.insert(arguments.begin(), path);
  if (run_ms(arguments) >= 0) return path;
  std::printf("%s fails even with /bin/true, and is left out\n", path.c_str());
  return {};
}

/// The folder of the running program.
inline std::string own_folder() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  const std::string whole(path, n > 0 ? static_cast<std::size_t>(n) : 0);
  return whole.substr(0, whole.rfind('/'));
}

}  // namespace ddprun::bench
