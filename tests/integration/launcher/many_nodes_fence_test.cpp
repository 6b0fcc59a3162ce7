// A node that is cut off kills all that its workers have started before another node begins the
// next round, also where that is very many processes in sessions of their own.
#include <sys/stat.h>

#include <deque>
#include <fstream>
#include <string>

#include "tests/integration/launcher/running_rdzvd.hpp"
#include "tests/support/repeats.hpp"

using namespace ddprun;

namespace {

/// In the first round a worker starts 10 chains of 10 sessions with so many processes in each,
/// which share a lock that lasts as long as any of them. A worker of a later round wants the lock
/// alone.
constexpr const char* kScript = R"(
case ${1:-$DDPRUN_ROUND} in
0)
  exec 9>>"$FILES/lock" 8<>"$FILES/never"
  flock -s 9
  for chain in 1 2 3 4 5 6 7 8 9 10; do setsid sh "$0" chain 10 & done
  read -r forever <&8;;
chain)
  if [ "$2" -gt 1 ]; then setsid sh "$0" chain $(($2 - 1)) & fi
  process=0
  while [ $process -lt "$PROCESSES" ]; do (read -r forever <&8) & process=$((process + 1)); done
  read -r forever <&8;;
*)
  exec 9>>"$FILES/lock"
  if flock -n 9; then echo "alone in round $DDPRUN_ROUND"; else echo "others live"; fi;;
esac
)";

}  // namespace

TEST_CASE("nothing of a node that was cut off runs when another node begins the next round") {
  // In each session; 100 in all the sessions are 10,000.
  const int processes = test::repeats("DDPRUN_TEST_PROCESSES", 2);
  const bool many = processes > 10;
  const test::TempDir folder;
  const std::string script = (folder / "worker.sh").string();
  std::ofstream(script) << kScript;
  REQUIRE(mkfifo((folder / "never").c_str(), 0600) == 0);
  const test::Rdzvd rdzvd;
  test::Job job;
  auto settings = job.settings();
  settings.environment.emplace_back("FILES", folder.path().string());
  settings.environment.emplace_back("PROCESSES", std::to_string(processes));
  std::deque<test::Child> nodes;
  for (int node = 0; node < 2; ++node) {
    auto words = rdzvd.options("1:2", test::kShortLease);
    words.insert(words.begin(), test::program("ddprun"));
    words.insert(words.end(), {"--nproc-per-node=1", "--grace-period=0.5", "--output=pipe",
                               many ? "--chaos=1,partition=40/15,faults=1"
                                    : "--chaos=1,partition=1.5/8,faults=1",
                               "--no-python", "/bin/sh", script});
    nodes.emplace_back(words, settings);
  }
  std::string said;
  std::string told;
  for (test::Child& node : nodes) {
    const auto ended = node.wait();
    said += ended.out;
    told += ended.err;
  }
  INFO(told);
  CHECK(told.find("no connection to the rendezvous for ") != std::string::npos);
  CHECK(said.find("alone in round ") != std::string::npos);
  CHECK(said.find("others live") == std::string::npos);
  CHECK(told.find("could not be killed") == std::string::npos);
  CHECK(test::processes_with(job.mark_entry()).empty());
}
