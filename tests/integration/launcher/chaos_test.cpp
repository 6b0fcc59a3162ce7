// --chaos in real jobs: faults, recoveries and what is said of them.
#include <nlohmann/json.hpp>

#include "tests/integration/launcher/many_nodes.hpp"
#include "tests/integration/launcher/running_rdzvd.hpp"
#include "tests/integration/launcher/script_job.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;
using test::run_script;

namespace {

/// `fault 1: SIGKILL to rank 0`, ..., without the process ids.
std::vector<std::string> faults_in(const std::string& err) {
  std::vector<std::string> found;
  std::istringstream lines(err);
  const std::string begin = "ddprun: chaos: ";
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(begin, 0) != 0) continue;
    const auto pid = line.find(" (pid");
    found.push_back(line.substr(begin.size(), pid - begin.size()));
  }
  return found;
}

}  // namespace

TEST_CASE(
    "the option --chaos kills workers, the same ones with the same seed, and tells the "
    "recoveries") {
  const std::string script = "test $TORCHELASTIC_RESTART_COUNT = 3 || exec $W sleep 60";
  std::vector<std::string> faults;
  for (int run = 0; run < 2; ++run) {
    const auto result = run_script({"--nproc-per-node=2", "--max-restarts=9", "--restart-delay=0",
                                    "--chaos=7,kill=0.2,faults=3"},
                                   script);
    INFO(result.job.err);
    CHECK(result.job.status == 0);
    const auto report = nlohmann::json::parse(result.report);
    CHECK(report["restart_count"] == 3);
    CHECK(report["chaos"]["seed"] == 7);
    CHECK(report["chaos"]["kill"] == 3);
    CHECK(report["chaos"]["recoveries"] == 3);
    CHECK(report["chaos"]["recovery_longest_seconds"] > 0);
    CHECK_THAT(result.job.err,
               Contains("ddprun: chaos (seed 7): 3 faults (3 kill); 3 recoveries: "));
    const auto seen = faults_in(result.job.err);
    REQUIRE(seen.size() == 3);
    CHECK(seen[0].rfind("fault 1: SIGKILL to rank ", 0) == 0);
    if (run == 1) CHECK(seen == faults);
    faults = seen;
  }
}

TEST_CASE("a worker that --chaos delays goes on, and its round with it") {
  const auto result =
      run_script({"--nproc-per-node=2", "--chaos=1,delay=0.2/0.3,faults=2"}, "$W sleep 1.5");
  INFO(result.job.err);
  CHECK(result.job.status == 0);
  CHECK(nlohmann::json::parse(result.report)["chaos"]["delay"] == 2);
  const auto faults = faults_in(result.job.err);
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].rfind("fault 1: SIGSTOP to rank ", 0) == 0);
  CHECK_THAT(result.job.err, Contains(" for 300 ms"));
}

TEST_CASE("a worker that --chaos stops counts as hung, and the job recovers") {
  const auto result =
      run_script({"--nproc-per-node=2", "--max-restarts=1", "--progress-timeout=0.5",
                  "--chaos=1,stop=0.2,faults=1"},
                 "test $TORCHELASTIC_RESTART_COUNT = 1 && exit 0; i=0; "
                 "while :; do i=$((i+1)); $W progress $i load; /bin/sleep 0.05; done",
                 "/nowhere");
  INFO(result.job.err);
  CHECK(result.job.status == 0);
  const auto report = nlohmann::json::parse(result.report);
  CHECK(report["restart_count"] == 1);
  CHECK(report["chaos"]["stop"] == 1);
  CHECK(report["chaos"]["recoveries"] == 1);
}

TEST_CASE("faults without a restart or a way to find hangs are warned of") {
  const auto result = run_script({"--chaos=1,kill=0.1,stop=1h"}, "exec $W sleep 60");
  CHECK(result.job.status == 128 + SIGKILL);
  CHECK_THAT(result.job.err,
             Contains("warning: --chaos without --max-restarts: the first fault ends the job"));
  CHECK_THAT(result.job.err, Contains("warning: --chaos with stop: a stopped worker is only found "
                                      "with --progress-timeout or --on-silence=restart"));
}

TEST_CASE("several nodes draw the same faults, and each one hits one worker") {
  test::ManyNodes job;
  for (int node = 0; node < 2; ++node) {
    auto options = job.c10d("2");
    options.insert(options.end(),
                   {"--max-restarts=9", "--restart-delay=0", "--chaos=3,kill=0.5,faults=3"});
    job.start(options, {"until", job.gate()});
  }
  const auto all_faults = [&] {
    std::set<std::string> all;
    for (const auto& node : job.nodes)
      for (const std::string& fault : faults_in(node.err())) all.insert(fault);
    return all;
  };
  for (auto& node : job.nodes) {
    REQUIRE(node.wait_for([](const std::string& out, const std::string&) {
      return out.find(" restarts=3 ") != std::string::npos;
    }));
  }
  job.open_gate();
  job.succeed();
  const auto faults = all_faults();
  std::string told;
  for (const std::string& fault : faults) told += fault.substr(0, 7) + " ";
  CHECK(told == "fault 1 fault 2 fault 3 ");
}

namespace {

/// Two nodes of two workers, which meet and run until the gate is open, or do `command`; each has a
/// report.
struct ReportedNodes : test::ManyNodes {
  explicit ReportedNodes(const std::string& chaos, std::vector<std::string> command = {},
                         const std::string& lease = test::kShortLease) {
    if (command.empty()) command = {test::helper("meeting_worker"), "until", gate()};
    for (int node = 0; node < 2; ++node) {
      std::vector<std::string> words{test::program("ddprun"), "--output=pipe",
                                     "--grace-period=2",      "--rdzv-conf=" + lease,
                                     "--chaos=" + chaos,      "--report=" + report_file(node)};
      const auto meeting = c10d("2");
      words.insert(words.end(), meeting.begin(), meeting.end());
      words.insert(words.end(), command.begin(), command.end());
      nodes.emplace_back(words, job.settings());
    }
  }
  [[nodiscard]] std::string report_file(int node) const {
    return (reports / (std::to_string(node) + ".json")).string();
  }
  /// The part on chaos of the report, which one of the nodes has.
  [[nodiscard]] nlohmann::json chaos() const {
    for (int node = 0; node < 2; ++node) {
      std::ifstream file(report_file(node));
      const auto report = nlohmann::json::parse(file, nullptr, false);
      if (report.contains("chaos")) return report["chaos"];
    }
    return {};
  }
  /// All workers have met once more.
  void wait_for_rounds(std::size_t count) {
    for (auto& node : nodes) {
      REQUIRE(node.wait_for([count](const std::string& out, const std::string&) {
        return test::said(out, "rank").size() >= 2 * count;
      }));
    }
  }

  test::TempDir reports;
};

std::vector<std::string> faults_of(const ReportedNodes& job) {
  std::vector<std::string> all;
  for (const auto& node : job.nodes)
    for (const std::string& fault : faults_in(node.err())) all.push_back(fault);
  return all;
}

}  // namespace

TEST_CASE("a rendezvous that --chaos kills comes back without memory, and the job restarts") {
  ReportedNodes job("1,service=0.5,faults=1");
  job.wait_for_rounds(2);
  job.open_gate();
  job.succeed();
  CHECK(faults_of(job) ==
        std::vector<std::string>{
            "fault 1: the rendezvous is killed and started again without memory"});
  const auto chaos = job.chaos();
  CHECK(chaos["service"] == 1);
  CHECK(chaos["recoveries"] == 1);
}

TEST_CASE("a node that --chaos cuts off for longer than its lease comes back") {
  ReportedNodes job("1,partition=0.5/2,faults=1");
  job.wait_for_rounds(2);
  job.open_gate();
  job.succeed();
  CHECK(faults_of(job) ==
        std::vector<std::string>{"fault 1: no connection to the rendezvous for 2.0 s"});
  const auto chaos = job.chaos();
  CHECK(chaos["partition"] == 1);
  CHECK(chaos["recoveries"] == 1);
}

TEST_CASE("a round outlives partitions that are shorter than the lease") {
  // A lease of 24 s: a busy machine takes none away.
  ReportedNodes job("1,partition=0.3/0.1,faults=2", {"/bin/sleep", "3"},
                    "keep_alive_interval=8,keep_alive_max_attempt=3");
  job.succeed();
  CHECK(faults_of(job).size() == 2);
  const auto chaos = job.chaos();
  CHECK(chaos["partition"] == 2);
  CHECK(chaos["recoveries"] == 0);
}

TEST_CASE("an rdzvd is not killed by --chaos, and one node has no rendezvous to break") {
  const test::Rdzvd rdzvd;
  test::ManyNodes job;
  auto options = rdzvd.options("2", test::kShortLease);
  options.push_back("--chaos=1,service=1s");
  job.start(options);
  const auto results = job.wait();
  CHECK(results.at(0).status != 0);
  CHECK_THAT(results.at(0).err,
             Contains("--chaos with service: the rendezvous at " + rdzvd.endpoint +
                      " is an rdzvd, and ddprun kills none, because other jobs may use it"));
  for (const std::string fault : {"service=1s", "partition=1s/1s"}) {
    const auto alone = run_script({"--chaos=1," + fault}, "exit 0");
    CHECK(alone.job.status == 2);
    CHECK_THAT(alone.job.err, Contains(": a job of one node has no rendezvous; leave "));
  }
}
