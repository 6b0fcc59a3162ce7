// A thousand ddprun processes in one job, or as many as DDPRUN_TEST_AGENTS says: it forms, loses a
// worker, forms again and ends. How long that takes is printed.
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "tests/integration/launcher/many_nodes.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun::test;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFilesOfAgent = 3;  // pipes to each
constexpr std::uint64_t kMemoryOfAgent = 8ULL << 20;

int agents() {
  const char* const given = std::getenv("DDPRUN_TEST_AGENTS");
  return given != nullptr ? std::atoi(given) : 1000;
}

/// Why so many do not fit; empty: they do.
std::string why_not(int count) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < static_cast<rlim_t>(count * kFilesOfAgent + 100))
    return "a process may not open enough files here (ulimit -Hn)";
  rlimit processes{};
  getrlimit(RLIMIT_NPROC, &processes);
  if (geteuid() != 0 && processes.rlim_cur < static_cast<rlim_t>(count * 8))
    return "this user may not have enough processes (ulimit -u)";
  std::ifstream memory("/proc/meminfo");
  for (std::string name, unit; memory >> name;) {
    std::uint64_t kilobytes = 0;
    memory >> kilobytes;
    std::getline(memory, unit);
    if (name == "MemAvailable:" && kilobytes * 1024 < kMemoryOfAgent * static_cast<unsigned>(count))
      return "there is not enough memory";
  }
  return "";
}

/// Says since when the last time.
class Stopwatch {
 public:
  void say(const std::string& part) {
    const auto now = Clock::now();
    std::cerr << part << ": " << std::chrono::duration<double>(now - last_).count() << " s\n";
    last_ = now;
  }

 private:
  Clock::time_point last_ = Clock::now();
};

}  // namespace

TEST_CASE("a job of a thousand agents forms, loses a worker, forms again and ends") {
  const int count = agents();
  if (const std::string why = why_not(count); !why.empty()) skip(why);
  ManyNodes job;
  ChildOptions settings = job.job.settings();
  settings.limit = std::chrono::minutes(8);
  ChildOptions outside_the_job;
  outside_the_job.limit = settings.limit;
  Child rdzvd({program("rdzvd"), "--listen=127.0.0.1:0"}, outside_the_job);
  REQUIRE(rdzvd.wait_for_output("\n"));
  const std::string endpoint = rdzvd.out().substr(0, rdzvd.out().find('\n'));
  // The first round runs until the gate opens; then one worker fails, alone.
  const std::string worker =
      "echo \" met rank=$RANK round=$DDPRUN_ROUND world=$WORLD_SIZE \"; "
      "[ $DDPRUN_ROUND = 0 ] || exit 0; "
      "[ $RANK = 1 ] || exec sleep 1000; "
      "while [ ! -e " +
      job.gate() + " ]; do sleep 0.1; done; exit 3";
  Stopwatch watch;
  for (int i = 0; i < count; ++i)
    job.nodes.emplace_back(
        std::vector<std::string>{program("ddprun"), "--output=pipe", "--max-restarts=1",
                                 "--nnodes=" + std::to_string(count), "--nproc-per-node=1",
                                 "--rdzv-backend=c10d", "--rdzv-endpoint=" + endpoint,
                                 "--rdzv-conf=is_host=0", "--no-python", "/bin/sh", "-c", worker},
        settings);
  watch.say("started");
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("round=0"));
  watch.say("in the first round");
  job.open_gate();
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("round=1"));
  watch.say("after the failure in the second round");
  const std::vector<ChildResult> nodes = job.wait();
  watch.say("ended");
  rdzvd.signal(SIGTERM);
  CHECK(rdzvd.wait().status == 0);
  for (const ChildResult& node : nodes) {
    INFO(node.out + node.err);
    REQUIRE(node.status == 0);
  }
  std::multiset<std::string> ranks;
  for (int rank = 0; rank < count; ++rank)
    ranks.insert({std::to_string(rank), std::to_string(rank)});  // in two rounds
  CHECK(all_said(nodes, "rank") == ranks);
  CHECK(all_said(nodes, "world").count(std::to_string(count)) == 2 * nodes.size());
}
