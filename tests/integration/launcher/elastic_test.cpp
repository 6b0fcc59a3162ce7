// Workers that go on, with their process and their memory, when another one has failed: real
// ddprun, and a worker in C.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/launcher/many_nodes.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using test::Child;
using test::ChildResult;

namespace {

/// A line of elastic_worker, as its words name its parts.
struct Line {
  std::string what;  ///< "starts", "goes on", "leaves", "ends"
  std::map<std::string, std::string> parts;
  [[nodiscard]] std::string operator[](const std::string& name) const {
    const auto found = parts.find(name);
    return found == parts.end() ? "" : found->second;
  }
};

std::vector<Line> lines_of(const std::string& out) {
  std::vector<Line> lines;
  std::istringstream stream(out);
  for (std::string text; std::getline(stream, text);) {
    if (const auto prefix = text.find("] "); text.starts_with('[')) text.erase(0, prefix + 2);
    Line line;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) {
        line.what += (line.what.empty() ? "" : " ") + word;
      } else {
        line.parts[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<Line> lines_of(const std::string& out, const std::string& what) {
  auto lines = lines_of(out);
  std::erase_if(lines, [&](const Line& line) { return line.what != what; });
  return lines;
}

/// A job of one node or several, of which the test can kill workers.
class ElasticJob {
 public:
  explicit ElasticJob(int steps = 300) : steps_(steps) {}

  Child& start(std::vector<std::string> options, const std::vector<std::string>& actions = {}) {
    std::vector<std::string> words{test::program("ddprun"), "--restart-delay=0",
                                   "--max-restarts=20"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(),
                 {test::helper("elastic_worker"), folder_.path().string(), std::to_string(steps_)});
    words.insert(words.end(), actions.begin(), actions.end());
    return nodes_.emplace_back(words, job_.settings());
  }
  Child& start(int workers, const std::vector<std::string>& actions = {}) {
    return start({"--nproc-per-node=" + std::to_string(workers)}, actions);
  }
  /// The newest process of the rank.
  pid_t pid_of(int rank) {
    pid_t pid = -1;
    for (const Line& line : lines_of(out()))
      if (line["rank"] == std::to_string(rank)) pid = std::stoi(line["pid"]);
    REQUIRE(pid > 0);
    return pid;
  }
  /// So many lines of this kind have been printed, on all nodes.
  void await(const std::string& what, std::size_t count) {
    const bool came = test::eventually([&] {
      for (Child& node : nodes_)  // what has come, or comes within moments
        node.wait_for([read = false](auto&, auto&) mutable { return std::exchange(read, true); });
      return lines_of(out(), what).size() >= count;
    });
    INFO(out() + err());
    REQUIRE(came);
  }
  void kill_rank(int rank, int signal = SIGKILL) { kill(pid_of(rank), signal); }
  /// Some steps more have been done.
  void await_steps() { await("has done", lines_of(out(), "has done").size() + 4); }
  /// Three workers run; rank 1 fails twice. Two workers wait for the second restart, which has a
  /// delay.
  void fail_twice() {
    await("starts", 3);
    await_steps();
    kill_rank(1);
    await("goes on", 2);
    await("starts", 4);
    await_steps();
    kill_rank(1);
    await("leaves", 4);
  }

  [[nodiscard]] std::string out() const {
    std::string all;
    for (const Child& node : nodes_) all += node.out();
    return all;
  }
  [[nodiscard]] std::string err() const {
    std::string all;
    for (const Child& node : nodes_) all += node.err();
    return all;
  }
  /// All nodes but those that were killed have ended; nothing of the job is left.
  std::vector<ChildResult> wait() {
    std::vector<ChildResult> results;
    for (Child& node : nodes_) results.push_back(node.wait());
    CHECK(test::eventually([this] { return test::processes_with(job_.mark_entry()).empty(); }));
    return results;
  }
  /// All have succeeded, and so many processes were started. Each rank has done all steps.
  void succeed(std::size_t started, std::size_t ends) {
    for (const ChildResult& node : wait()) {
      INFO(node.out + node.err);
      CHECK(node.status == 0);
    }
    INFO(out() + err());
    CHECK(lines_of(out(), "starts").size() == started);
    CHECK(lines_of(out(), "ends").size() == ends);
    for (const Line& line : lines_of(out(), "ends")) CHECK(line["step"] == std::to_string(steps_));
  }
  [[nodiscard]] bool any_process() const {
    return !test::processes_with(job_.mark_entry()).empty();
  }
  std::deque<Child>& nodes() { return nodes_; }

 private:
  int steps_;
  test::TempDir folder_;
  test::Job job_;
  std::deque<Child> nodes_;
};

}  // namespace

TEST_CASE("a worker that is killed is replaced, and the others go on with their memory") {
  ElasticJob job;
  const test::TempDir folder;
  const std::string report = (folder / "report.json").string();
  job.start({"--nproc-per-node=3", "--report=" + report});
  job.await("starts", 3);
  for (const int victim : {1, 0, 2}) {
    const auto before = lines_of(job.out(), "goes on").size();
    const auto starts = lines_of(job.out(), "starts").size();
    job.await_steps();
    job.kill_rank(victim);
    job.await("goes on", before + 2);
    job.await("starts", starts + 1);
  }
  job.succeed(3 + 3, 3);
  for (const Line& line : lines_of(job.out(), "goes on")) {
    CHECK(line["world"] == "3");
    CHECK(line["restarts"] == line["round"]);
    CHECK_FALSE(line["source"].empty());
  }
  CHECK_THAT(job.err(), Contains("2 of 3 workers go on after step ") &&
                            Contains(", with the state of rank ") &&
                            Contains("(1 of 20 restarts)"));
  CHECK_THAT(job.err(),
             Contains("3 restarts, at most ") && Contains(" and the interrupted steps lost"));
  std::stringstream text;
  text << std::ifstream(report).rdbuf();
  CHECK_THAT(text.str(), Contains("\"kept_workers\": 2"));
}

TEST_CASE("where no worker is left, or none has a state, all start again, which is reported") {
  ElasticJob job(60);
  job.start(2);
  job.await("starts", 2);
  job.kill_rank(0, SIGSTOP);  // so that it cannot be asked to wait before it is killed, too
  job.kill_rank(1);
  job.succeed(4, 2);
  for (const Line& line : lines_of(job.out(), "starts")) CHECK(line["source"].empty());
  CHECK_THAT(job.err(), Contains("; restarting the workers (1 of 20 restarts)"));
}

TEST_CASE("a worker that is suspended is replaced at once, without waiting for its answer") {
  ElasticJob job;
  Child& node = job.start({"--nproc-per-node=3", "--grace-period=30"});
  job.await("starts", 3);
  job.await_steps();
  job.kill_rank(2, SIGSTOP);
  job.kill_rank(1);
  job.succeed(5, 3);
  CHECK(lines_of(node.out(), "goes on").size() == 1);
  CHECK_THAT(node.err(), Contains("1 of 3 workers go on"));
}

TEST_CASE("a worker that does not leave its round is killed after the grace period") {
  ElasticJob job;
  const std::string how = GENERATE("deaf", "closes");
  Child& node = job.start({"--nproc-per-node=3", "--grace-period=1"}, {how, "2"});
  job.await("starts", 3);
  job.await_steps();
  job.kill_rank(1);
  job.succeed(5, 3);
  CHECK_THAT(node.err(), Contains("1 of 3 workers go on"));
}

TEST_CASE("a worker that is killed while it waits for the next round is replaced, too") {
  ElasticJob job;
  Child& node = job.start({"--nproc-per-node=3", "--restart-delay=3"});
  job.fail_twice();
  job.kill_rank(0);
  job.succeed(6, 3);
  CHECK_THAT(node.err(), Contains("1 of 3 workers go on"));
}

TEST_CASE("workers that die together while they wait do not keep the agent busy") {
  ElasticJob job;
  Child& node = job.start({"--nproc-per-node=3", "--restart-delay=3"});
  job.fail_twice();
  const std::vector<pid_t> both{job.pid_of(0), job.pid_of(2)};
  for (const pid_t pid : both) kill(pid, SIGKILL);
  job.succeed(4 + 3, 3);
  CHECK_THAT(node.err(), Contains("2 of 20 restarts"));
}

TEST_CASE("what a worker has started stays with it, and goes with it") {
  ElasticJob job;
  Child& node = job.start(3, {"child", "0", "child", "1"});
  job.await("starts", 3);
  job.await_steps();
  const auto children = [&](int rank) {
    const pid_t worker = job.pid_of(rank);
    const auto all = test::processes_showing("cmdline", "elastic_worker");
    return std::count_if(all.begin(), all.end(),
                         [&](pid_t pid) { return test::parent_of(pid) == worker; });
  };
  const auto others = [&] {
    const pid_t agent = test::parent_of(job.pid_of(0));
    const auto all = test::processes_showing("cmdline", "elastic_worker");
    return std::count_if(all.begin(), all.end(),
                         [&](pid_t pid) { return test::parent_of(pid) == agent; });
  };
  CHECK(children(0) == 1);
  CHECK(children(1) == 1);
  job.kill_rank(1);
  job.await("goes on", 2);
  job.await("starts", 4);
  CHECK(children(0) == 1);
  CHECK(others() == 3);  // the workers, and no child of the one that was killed
  node.signal(SIGTERM);
  job.wait();
}

TEST_CASE("what a worker has left that was killed while it waited is gone before others start") {
  ElasticJob job;
  job.start({"--nproc-per-node=3", "--restart-delay=3"}, {"detached", "0"});
  job.fail_twice();
  const pid_t agent = test::parent_of(job.pid_of(0));
  job.kill_rank(0);
  job.await("starts", 6);
  const auto all = test::processes_showing("cmdline", "elastic_worker");
  CHECK(std::count_if(all.begin(), all.end(),
                      [&](pid_t pid) { return test::parent_of(pid) == agent; }) == 3);
  job.succeed(6, 3);
}

TEST_CASE("no worker that waits outlives ddprun") {
  ElasticJob job;
  Child& node = job.start({"--nproc-per-node=3", "--restart-delay=60"});
  job.fail_twice();
  REQUIRE(test::eventually([&] {
    return node.wait_for([](auto&, const std::string& err) {
      return err.find("restarting the workers in ") != std::string::npos;
    });
  }));
  const int signal = GENERATE(SIGINT, SIGTERM, SIGKILL);
  node.signal(signal);
  const ChildResult result = job.wait().front();
  CHECK(result.status == 128 + signal);
}

TEST_CASE("a worker that has lost another one may leave its round unasked") {
  ElasticJob job;
  Child& node = job.start(3, {"lonely", "1"});
  job.succeed(3, 3);
  CHECK(lines_of(node.out(), "goes on").size() == 3);
  CHECK_THAT(node.err(), Contains("it has lost another worker and waits for the next round") &&
                             Contains("3 of 3 workers go on"));
}

TEST_CASE("only processes of a worker may join, and one of each") {
  ElasticJob job(20);
  Child& node = job.start(2, {"stranger", "0"});
  job.succeed(2, 2);
  CHECK_THAT(node.out(), Contains("joins twice: Operation not permitted"));
  CHECK_THAT(node.out(), Contains("another session: refused"));
}

TEST_CASE("the last words of a worker that has gone on are found") {
  ElasticJob job;
  test::TempDir logs;
  const bool to_files = GENERATE(false, true);
  std::vector<std::string> options{"--nproc-per-node=2", "--max-restarts=1"};
  if (to_files) options.insert(options.end(), {"--log-dir=" + logs.path().string(), "--tee=3"});
  Child& node = job.start(options, {"raises", "0"});
  job.await("starts", 2);
  job.await_steps();
  job.kill_rank(1);
  const ChildResult result = job.wait().front();
  CHECK(result.status == 1);
  CHECK_THAT(node.err(), Contains("culprit: rank 0") && Contains("ValueError: bad lr"));
}

TEST_CASE("a survivor that writes of its interruption is not the culprit") {
  ElasticJob job;
  Child& node = job.start(3, {"complains", "0"});
  job.await("starts", 3);
  job.await_steps();
  job.kill_rank(1);
  job.succeed(4, 3);
  CHECK_THAT(node.err(), Contains("rank 1 killed by SIGKILL") && Contains("2 of 3 workers go on"));
}

TEST_CASE("workers of other nodes go on when one fails, and when a whole node is lost") {
  ElasticJob job(600);
  test::ManyNodes place;
  auto options = place.c10d("1:3");
  options.insert(options.end(), {"--rdzv-conf=last_call_timeout=1", "--output=pipe"});
  job.start(options);  // it has the rendezvous
  std::this_thread::sleep_for(500ms);
  job.start(options);
  Child& lost = job.start(options);
  job.await("starts", 6);
  job.await_steps();
  job.kill_rank(5);
  job.await("goes on", 5);
  job.await("starts", 7);
  job.await_steps();
  lost.signal(SIGKILL);
  job.await("goes on", 9);
  for (const ChildResult& node : job.wait()) CHECK((node.status == 0 || node.status == 137));
  const auto ends = lines_of(job.out(), "ends");
  CHECK(ends.size() == 4);
  for (const Line& line : ends) {
    CHECK(line["world"] == "4");
    CHECK(line["step"] == "600");
  }
  CHECK(lines_of(job.out(), "starts").size() == 7);
}

TEST_CASE("workers that wait for a world of at least MIN nodes are ended with their job") {
  ElasticJob job(100'000);
  test::ManyNodes place;
  auto options = place.c10d("2:2");
  options.insert(options.end(),
                 {"--rdzv-conf=last_call_timeout=0.2,join_timeout=2,keep_alive_interval=0.4,"
                  "keep_alive_max_attempt=3",
                  "--output=pipe"});
  job.start(options);
  std::this_thread::sleep_for(300ms);
  Child& second = job.start(options);
  job.await("starts", 4);
  job.await_steps();
  second.signal(SIGKILL);
  job.await("leaves", 2);
  CHECK(job.wait().front().status == 69);
}

TEST_CASE("nodes that join or leave cost the workers of the others no start") {
  ElasticJob job(1000);
  test::ManyNodes place;
  auto options = place.c10d("1:2");
  options.insert(
      options.end(),
      {"--rdzv-conf=last_call_timeout=0.2,keep_alive_interval=0.4,keep_alive_max_attempt=3",
       "--grow-delay=0.1", "--output=pipe"});  // one node waits for the lease and 2 s
  job.start(options);
  job.await("starts", 2);
  job.await_steps();
  Child& second = job.start(options);
  job.await("goes on", 2);
  job.await("starts", 4);
  for (const Line& line : lines_of(job.out(), "leaves")) CHECK(line["when"] == "step");
  for (const Line& line : lines_of(job.out(), "goes on")) CHECK(line["world"] == "4");
  job.await_steps();
  second.signal(SIGTERM);
  job.await("goes on", 4);
  job.wait();
  const auto ends = lines_of(job.out(), "ends");
  CHECK(ends.size() == 2);
  for (const Line& line : ends) CHECK(line["world"] == "2");
  CHECK(lines_of(job.out(), "starts").size() == 4);
}
