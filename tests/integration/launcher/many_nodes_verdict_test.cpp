// Staged failures of jobs of three nodes, two workers each: which worker or node is the culprit,
// and that all nodes end with the same exit code.
#include <filesystem>
#include <tuple>

#include <nlohmann/json.hpp>

#include "tests/integration/launcher/many_nodes.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Json = nlohmann::json;

namespace {

/// All ranks run; then each does its part. Gates are files, so that what is to come later does.
constexpr const char* kBegin = R"(
gate() { until test -e "$D/$1"; do sleep 0.01; done; }
open() { : > "$D/$1"; }
open up$RANK
for r in 0 1 2 3 4 5; do gate up$r; done
raise() { printf 'Traceback (most recent call last):\n  File "t.py", line 1\n%s\n' "$1" >&2; }
ended() { while kill -0 $(cat "$D/culprit") 2> /dev/null; do sleep 0.01; done; }
victim() { gate "$1"; raise 'RuntimeError: Connection closed by peer'; open victims; exit 1; }
case $RANK in
)";
constexpr const char* kEnd = "\nesac\nexec sleep 60";

struct Staged {
  std::vector<ChildResult> nodes;
  Json report;
};

class Stage {
 public:
  explicit Stage(const std::string& script, const std::vector<std::string>& options = {}) {
    auto settings = job_.job.settings();
    settings.environment.emplace_back("D", folder_.path().string());
    settings.environment.emplace_back("W", helper("job_worker"));
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<std::string> words{program("ddprun"), "--output=pipe", "--grace-period=2"};
      for (const std::string& one : job_.fixed("3", rank)) words.push_back(one);
      words.insert(words.end(), options.begin(), options.end());
      if (rank == 0) words.push_back("--report=" + report_file());
      words.insert(words.end(), {"/bin/sh", "-c", kBegin + script + kEnd});
      job_.nodes.emplace_back(words, settings);
    }
  }
  Child& node(std::size_t rank) { return job_.nodes[rank]; }
  [[nodiscard]] std::string file(const std::string& name) const {
    return (folder_ / name).string();
  }
  Staged wait() {
    Staged staged{job_.wait(), {}};
    std::ifstream stream(report_file());
    staged.report = Json::parse(stream);
    return staged;
  }

 private:
  [[nodiscard]] std::string report_file() const { return file("report.json"); }

  TempDir folder_;
  ManyNodes job_;
};

/// The culprit's part; on the other ranks all are victims of it.
std::string one_fails(int rank, const std::string& part) {
  return std::to_string(rank) + ") " + part + ";;\n*) victim failed;;";
}

/// As that, but its victims come when ddprun has seen its end, however slow the machine is.
std::string one_ends(int rank, const std::string& part) {
  return std::to_string(rank) + ") echo $$ > \"$D/culprit\"; open failed; " + part +
         ";;\n*) gate failed; ended; victim failed;;";  // ddprun makes one $ of two
}

pid_t only_child_of(pid_t parent) {
  const std::string pid = std::to_string(parent);
  std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
  pid_t child = 0;
  REQUIRE(children >> child);
  return child;
}

void check(const Staged& staged, int rank, int code, const std::string& evidence) {
  for (const ChildResult& node : staged.nodes) {
    INFO(node.out + node.err);
    CHECK(node.status == code);
  }
  INFO(staged.report.dump(1));
  REQUIRE(staged.report["culprit"].is_object());
  CHECK(staged.report["culprit"]["rank"] == rank);
  CHECK(staged.report["culprit"]["evidence"] == evidence);
  REQUIRE(staged.report["node_list"].size() == 3);
  CHECK(staged.report["node_list"][2]["ranks"] == Json({4, 5}));
}

}  // namespace

TEST_CASE("a worker that exits first on any of three nodes is the culprit") {
  const int rank = GENERATE(0, 1, 2, 3, 4, 5);
  check(Stage(one_ends(rank, "exit 7")).wait(), rank, 7, "own_exit");
}

TEST_CASE("a worker that raises and ends after its victims on other nodes is the culprit") {
  const int rank = GENERATE(0, 1, 2, 3, 4, 5);
  const std::string part =
      "raise 'ValueError: bad lr'; sleep 0.2; open failed; gate victims; exit 3";
  const auto staged = Stage(one_fails(rank, part)).wait();
  INFO(staged.report.dump(1));
  REQUIRE(staged.report["culprit"].is_object());
  CHECK(staged.report["culprit"]["rank"] == rank);
  CHECK(staged.report["culprit"]["evidence"] == "exception_line");
  CHECK(staged.report["culprit"]["evidence_text"] == "ValueError: bad lr");
  for (const ChildResult& node : staged.nodes) CHECK(node.status == staged.nodes[0].status);
}

TEST_CASE("a worker that crashes or is killed on one of three nodes is the culprit") {
  const int rank = GENERATE(1, 4);
  const auto [name, code, evidence] =
      GENERATE(std::tuple("SEGV", 139, "fatal_signal"), std::tuple("ABRT", 134, "fatal_signal"),
               std::tuple("KILL", 137, "own_exit"));
  const std::string part = std::string("ulimit -c 0; kill -") + name + " $$";
  check(Stage(one_ends(rank, part)).wait(), rank, code, evidence);
}

TEST_CASE("of two nodes where workers fail by themselves the first is the culprit") {
  const auto [first, second] = GENERATE(std::pair(2, 4), std::pair(5, 0));
  const std::string script =
      std::to_string(first) +
      ") raise 'ValueError: first'; sleep 0.2; open failed; gate second; exit 3;;\n" +
      std::to_string(second) + ") gate failed; raise 'OSError: second'; open second; exit 4;;";
  const auto staged = Stage(script).wait();
  INFO(staged.report.dump(1));
  REQUIRE(staged.report["culprit"].is_object());
  CHECK(staged.report["culprit"]["rank"] == first);
  for (const ChildResult& node : staged.nodes) CHECK(node.status == staged.nodes[0].status);
}

TEST_CASE("the worker that hangs is found on whichever node it is") {
  const int rank = GENERATE(0, 3, 5);
  const std::string script = std::to_string(rank) +
                             ") exec $W progress 4 data sleep 60;;\n"
                             "*) exec $W progress 5 all-reduce sleep 60;;";
  check(Stage(script, {"--progress-timeout=0.8"}).wait(), rank, 1, "hang");
}

TEST_CASE("a node that is lost is the culprit if all others are its victims") {
  // Its warden ends the connection in order when all is killed; without it the order of the
  // ends is open.
  const bool has_warden = GENERATE(true, false);
  Stage stage(
      "4|5) : ;;\n*) victim lost;;",
      {"--max-node-changes=0", "--rdzv-conf=keep_alive_interval=0.3,keep_alive_max_attempt=4"});
  while (!std::filesystem::exists(stage.file("up5"))) usleep(10'000);
  const pid_t warden = stage.node(2).pid();
  REQUIRE(kill(has_warden ? only_child_of(warden) : warden, SIGKILL) == 0);
  stage.node(2).wait();
  std::ofstream(stage.file("lost")) << "x";
  const auto staged = stage.wait();
  for (const std::size_t rank : {0, 1}) {
    INFO(staged.nodes[rank].out + staged.nodes[rank].err);
    CHECK(staged.nodes[rank].status == 69);
    const std::string sign = has_warden ? "its connection ended" : "";
    CHECK(staged.nodes[rank].err.find("(ranks 4 and 5), lost: " + sign) != std::string::npos);
  }
  INFO(staged.report.dump(1));
  CHECK(staged.report["culprit"].is_null());
  REQUIRE(staged.report["lost_node"].is_object());
  CHECK(staged.report["lost_node"]["ranks"] == Json({4, 5}));
  CHECK(staged.report["lost_node"]["silent_for_longer"] == false);
  REQUIRE(staged.report["node_list"].size() == 2);
  CHECK(staged.report["node_list"][1]["ranks"] == Json({2, 3}));
}
