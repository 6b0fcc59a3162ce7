// How long a job on eight hosts takes to start, beside the slowest of eight plain ssh: printed, and
// not checked.
#include <chrono>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "bench/support/measure.hpp"
#include "tests/integration/launcher/ssh_hosts.hpp"

using namespace ddprun;
using namespace ddprun::test;

namespace {

constexpr int kHosts = 8;
constexpr int kTurns = 10;

std::chrono::nanoseconds time_of_day() {
  return std::chrono::system_clock::now().time_since_epoch();
}

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Until the last of `ssh HOST true`, all at the same time, has ended.
double plain_start(const SshHosts& hosts) {
  const auto begin = time_of_day();
  std::deque<Child> all;
  for (int i = 1; i <= kHosts; ++i) all.emplace_back(hosts.ssh("h" + std::to_string(i), "true"));
  for (Child& one : all) REQUIRE(one.wait().status == 0);
  return seconds(time_of_day() - begin);
}

/// Until the last worker runs. The worker is `date`, so that it tells when at once.
double job_start(SshHosts& hosts) {
  const auto begin = time_of_day();
  const auto job =
      run(hosts.command({"--hosts=h[1-" + std::to_string(kHosts) + "]", "--nproc-per-node=1"},
                        {"+at %s%N"}, "/bin/date"),
          hosts.settings());
  INFO(job.out + job.err);
  REQUIRE(job.status == 0);
  int workers = 0;
  std::chrono::nanoseconds last{0};
  const std::string before = "] at ";
  for (auto at = job.out.find(before); at != std::string::npos; at = job.out.find(before, at + 1)) {
    last = std::max(last, std::chrono::nanoseconds(std::stoll(job.out.substr(at + before.size()))));
    ++workers;
  }
  REQUIRE(workers == kHosts);
  CHECK(hosts.nothing_left());
  return seconds(last - begin);
}

}  // namespace

TEST_CASE("how long eight hosts take to start, beside the slowest of eight plain ssh") {
  SshHosts hosts;
  std::vector<double> plain;
  std::vector<double> job;
  std::vector<double> ratios;
  for (int turn = 0; turn <= kTurns; ++turn) {
    const double plain_took = plain_start(hosts);
    const double job_took = job_start(hosts);
    if (turn == 0) continue;  // it fills caches
    plain.push_back(plain_took);
    job.push_back(job_took);
    ratios.push_back(job_took / plain_took);
  }
  std::fprintf(stderr,
               "ssh HOST true, the slowest of %d: median %.3f s; all workers run: median %.3f s; "
               "ratio: median %.2f, least %.2f, greatest %.2f (%d turns; goal 2)\n",
               kHosts, bench::median(plain), bench::median(job), bench::median(ratios),
               bench::quantile(ratios, 0), bench::quantile(ratios, 1), kTurns);
}
