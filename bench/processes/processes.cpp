// How long the agent and the warden take to find very many processes below them, and to end them.
// Everything is printed twice, for N processes and for 4 N: what is linear has a ratio of 4.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "bench/support/measure.hpp"
#include "machine/processes/kill_children.hpp"
#include "machine/processes/process_tree.hpp"

namespace bench = ddprun::bench;
namespace machine = ddprun::machine;

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 5;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Processes in chains of ten below one of them, in no order.
double order_ms(int processes) {
  std::vector<machine::ProcessEntry> all;
  for (int i = 0; i < processes; ++i)
    all.push_back({i + 2, i % 10 == 0 ? 1 : i + 1, 'S', "bench", i + 2, 1});
  std::shuffle(all.begin(), all.end(), std::mt19937(1));
  std::vector<double> ms;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    const auto found = machine::descendants_of(all, 1);
    ms.push_back(ms_since(begin));
    if (found.size() != all.size()) std::abort();
  }
  return bench::median(ms);
}

struct Real {
  double walk_ms = 0;
  double kill_ms = 0;
};

/// Children that sleep. False: the machine does not allow so many.
bool measure(int processes, Real& real) {
  for (int i = 0; i < processes; ++i) {
    const pid_t child = fork();
    if (child < 0) break;
    if (child == 0) {
      while (true) pause();
    }
  }
  std::vector<double> ms;
  std::size_t found = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    found = machine::live_descendants().size();
    ms.push_back(ms_since(begin));
  }
  const auto begin = Clock::now();
  const bool all_ended = machine::kill_all_children(begin + std::chrono::minutes(5)).empty();
  real = {bench::median(ms), ms_since(begin)};
  return found == static_cast<std::size_t>(processes) && all_ended;
}

void print(const char* what, double few, double many) {
  std::printf("%-44s %10.1f %10.1f %8.1f\n", what, few, many, many / few);
}

}  // namespace

int main(int argc, char** argv) {
  const int many = argc > 1 ? std::atoi(argv[1]) : 10'000;
  if (many < 4) {
    std::fprintf(stderr, "usage: bench_processes [PROCESSES=10000]\n");
    return 2;
  }
  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_signal, nullptr);
  Real of_few;
  Real of_many;
  if (!measure(many / 4, of_few) || !measure(many, of_many)) {
    std::fprintf(stderr, "bench_processes: so many processes cannot be started here\n");
    return 1;
  }
  std::printf("%-44s %10d %10d %8s\n", "processes (ms, medians)", many / 4, many, "ratio");
  print("found among those of the machine's list", order_ms(many / 4), order_ms(many));
  print("one look at /proc", of_few.walk_ms, of_many.walk_ms);
  print("all killed and reaped (once)", of_few.kill_ms, of_many.kill_ms);
}
