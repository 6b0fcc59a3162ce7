// The end of a job is bounded: what workers leave behind is told to end, named and killed; workers
// that ignore SIGTERM or are stopped; processes that cannot be killed at all.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/support/child.hpp"
#include "tests/support/job.hpp"
#include "tests/support/repeats.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

/// A cgroup of the freezer of version 1, in which not even SIGKILL ends a process. Thawed and
/// removed at the end.
class Freezer {
 public:
  Freezer() {
    // Some machines mount it elsewhere, most have none: then nothing here can be unkillable.
    folder_ = "/sys/fs/cgroup/freezer/ddprun_test_" + test::unique_mark();
    if (mkdir(folder_.c_str(), 0755) != 0)
      test::skip("no freezer of cgroup version 1 at /sys/fs/cgroup/freezer that we may use");
  }
  ~Freezer() {
    write("freezer.state", "THAWED");
    test::eventually([&] { return rmdir(folder_.c_str()) == 0; });
  }
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;

  void freeze(pid_t pid) const {
    write("cgroup.procs", std::to_string(pid));
    write("freezer.state", "FROZEN");
    REQUIRE(test::eventually([&] {
      std::ifstream file(folder_ + "/freezer.state");
      std::string state;
      std::getline(file, state);
      return state == "FROZEN";
    }));
  }
  void thaw() const { write("freezer.state", "THAWED"); }

 private:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text << std::flush;
  }
  std::string folder_;
};

/// The processes of a job by name.
std::vector<pid_t> called(const std::string& name, const std::string& entry) {
  std::vector<pid_t> found;
  for (const pid_t pid : test::processes_with(entry)) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string actual;
    std::getline(file, actual);
    if (actual == name) found.push_back(pid);
  }
  return found;
}

/// The one `sleep 60` of a job.
pid_t long_sleeper(const std::string& entry) {
  std::vector<pid_t> found;
  REQUIRE(test::eventually([&] {
    found = called("sleep", entry);
    std::erase_if(found, [](pid_t pid) {
      std::ifstream words("/proc/" + std::to_string(pid) + "/cmdline");
      std::ostringstream text;
      text << words.rdbuf();  // no exception where the process has just ended
      return !has(text.str(), "60");
    });
    return found.size() == 1;
  }));
  return found.front();
}

/// `ddprun OPTIONS /bin/sh FILE`, the text of FILE being `script`.
class ShellJob {
 public:
  explicit ShellJob(const std::string& script) { std::ofstream(file()) << script; }
  std::vector<std::string> command(std::vector<std::string> options) {
    options.insert(options.begin(), test::program("ddprun"));
    for (const std::string& word : {std::string("--no-python"), std::string("/bin/sh"), file()})
      options.push_back(word);
    return options;
  }
  test::ChildResult run(const std::vector<std::string>& options) {
    auto result = test::run(command(options), job.settings());
    CHECK(test::processes_with(job.mark_entry()).empty());
    return result;
  }
  [[nodiscard]] std::string place(const std::string& name) const {
    return (directory_.path() / name).string();
  }
  test::Job job;

 private:
  [[nodiscard]] std::string file() const { return place("worker.sh"); }
  test::TempDir directory_;
};

}  // namespace

TEST_CASE("a leftover process gets SIGTERM first after a normal end and is named") {
  ShellJob job(
      "(trap 'echo told; exit' TERM; echo ready; while :; do sleep 0.01; done) &\n"
      "exit 0\n");
  const auto result = job.run({"--grace-period=20"});
  CHECK(result.status == 0);
  CHECK(has(result.out, "told"));
  CHECK(has(result.err, "the workers have exited but left processes running: pid "));
  CHECK(has(result.err, "(sh)"));
  CHECK(has(result.err, "; sent SIGTERM, SIGKILL in 20"));
}

TEST_CASE("a leftover process that ignores SIGTERM is killed after the grace period") {
  for (const std::string level : {"tree", "pidns", "cgroup"}) {
    CAPTURE(level);
    test::Job job;
    auto settings = job.settings();
    settings.environment.push_back(test::no_leak_check());
    const auto tried = test::run(
        {test::program("ddprun"), "--contain=" + level, "--no-python", "/bin/true"}, settings);
    if (tried.status != 0) test::skip("no --contain=" + level + " here: " + tried.err);
    const auto result = test::run(
        test::Job::command({"--contain=" + level, "--nproc-per-node=2", "--grace-period=0.3"},
                           {"daemon"}),
        settings);
    CHECK(result.status == 0);
    CHECK(has(result.err, "(job_worker), pid "));
    CHECK(has(result.err, "SIGKILL in 300 ms"));
    CHECK(test::processes_with(job.mark_entry()).empty());
  }
}

TEST_CASE("a process that ends by itself soon after its worker is no news") {
  ShellJob job("(sleep 0.02; echo done) &\nexit 0\n");
  const auto result = job.run({});
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(has(result.out, "done"));
}

TEST_CASE("a signal kills leftover processes of a success at once and it stays a success") {
  test::Job job;
  test::Child child(test::Job::command({"--grace-period=60"}, {"daemon"}), job.settings());
  REQUIRE(child.wait_for(
      [](const std::string&, const std::string& err) { return has(err, "running: pid "); }));
  child.signal(SIGTERM);
  CHECK(child.wait().status == 0);
  CHECK(test::processes_with(job.mark_entry()).empty());
}

TEST_CASE("a new round begins when no process of the old one is left") {
  test::TempDir directory;
  const std::string pid_file = (directory.path() / "pid").string();
  // Round 0 leaves a process in a session of its own that ignores SIGTERM; round 1 looks for it.
  ShellJob job("if [ $DDPRUN_ROUND = 1 ]; then kill -0 $(cat " + pid_file +
               ") 2>/dev/null && echo alive || echo gone; exit 0; fi\n"
               "setsid sh -c \"trap '' TERM; echo \\$\\$ >" +
               pid_file + "; exec sleep 60\" &\n" + "while [ ! -s " + pid_file +
               " ]; do sleep 0.01; done\nexit 3\n");
  const auto result = job.run({"--max-restarts=1"});
  CHECK(result.status == 0);
  CHECK(has(result.out, "gone"));
  CHECK_FALSE(has(result.out, "alive"));
}

TEST_CASE("stopped workers and workers that ignore SIGTERM end with the grace period") {
  const int endings = test::repeats("DDPRUN_TEST_ENDINGS", 6);
  for (int i = 0; i < endings; ++i) {
    CAPTURE(i);
    test::Job job;
    const bool stopped = i % 2 == 0;
    const auto actions =
        stopped ? std::vector<std::string>{"ignore-term",           "print", "here", "kill",
                                           std::to_string(SIGSTOP), "sleep", "60"}
                : std::vector<std::string>{"ignore-term", "print", "here", "sleep", "60"};
    test::Child child(test::Job::command({"--grace-period=0.1", "--nproc-per-node=2"}, actions),
                      job.settings());
    REQUIRE(child.wait_for_output("[rank0] here"));
    REQUIRE(child.wait_for_output("[rank1] here"));
    const auto begin = std::chrono::steady_clock::now();
    child.signal(SIGTERM);
    CHECK(child.wait().status == 128 + SIGTERM);
    const auto took = std::chrono::steady_clock::now() - begin;
    // The promise is the grace period and a second; the limit here is only against a hang.
    CHECK(took < 20s);
    if (took > 1100ms)
      std::printf("ending %d took %lld ms\n", i, static_cast<long long>(took / 1ms));
    CHECK(test::processes_with(job.mark_entry()).empty());
  }
}

TEST_CASE("a worker that cannot be killed is named and the job ends all the same") {
  Freezer freezer;
  test::Job job;
  test::TempDir reports;
  const std::string report = (reports.path() / "report.json").string();
  test::Child child(
      test::Job::command({"--grace-period=0.1", "--kill-timeout=0.5", "--report=" + report},
                         {"print", "here", "sleep", "60"}),
      job.settings());
  REQUIRE(child.wait_for_output("here"));
  const auto workers = called("job_worker", job.mark_entry());
  REQUIRE(workers.size() == 1);
  freezer.freeze(workers.front());
  child.signal(SIGTERM);
  const auto result = child.wait();
  CHECK(result.status == 71);
  CHECK(has(result.err, "could not be killed: pid " + std::to_string(workers.front()) +
                            " (job_worker), state D (waits in the kernel"));
  std::ifstream file(report);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  CHECK(has(text, "\"exit_code\": 71"));
  CHECK(has(text, "(job_worker), state D"));
  CHECK(text.find("(job_worker), state D") == text.rfind("(job_worker), state D"));
  freezer.thaw();
  CHECK(test::eventually([&] { return test::processes_with(job.mark_entry()).empty(); }));
}

TEST_CASE("a leftover process that does not die is reported during the wait") {
  Freezer freezer;
  test::TempDir directory;
  const std::string gate = (directory.path() / "gate").string();
  ShellJob job("sleep 60 &\necho here\nwhile [ ! -e " + gate + " ]; do sleep 0.01; done\n");
  test::Child child(job.command({"--grace-period=0.1", "--kill-timeout=30"}), job.job.settings());
  REQUIRE(child.wait_for_output("here"));
  const pid_t stuck = long_sleeper(job.job.mark_entry());
  freezer.freeze(stuck);
  std::ofstream(gate) << "open";
  REQUIRE(child.wait_for([&](const std::string&, const std::string& err) {
    return has(err, "SIGKILL has not ended pid " + std::to_string(stuck) + " (sleep), state D");
  }));
  freezer.thaw();
  const auto result = child.wait();
  CHECK(result.status == 0);
  CHECK(test::processes_with(job.job.mark_entry()).empty());
}

TEST_CASE("no new round begins beside a process that cannot be killed") {
  Freezer freezer;
  test::TempDir directory;
  const std::string gate = (directory.path() / "gate").string();
  ShellJob job("echo here\n[ $RANK = 1 ] && exec sleep 60\nwhile [ ! -e " + gate +
               " ]; do sleep 0.01; done\nexit 3\n");
  test::Child child(job.command({"--grace-period=0.1", "--kill-timeout=0.5", "--max-restarts=3",
                                 "--nproc-per-node=2"}),
                    job.job.settings());
  REQUIRE(child.wait_for_output("[rank0] here"));
  REQUIRE(child.wait_for_output("[rank1] here"));
  const pid_t stuck = long_sleeper(job.job.mark_entry());
  freezer.freeze(stuck);
  std::ofstream(gate) << "open";
  const auto result = child.wait();
  CHECK(result.status == 71);
  CHECK(has(result.err, "culprit: rank 0"));
  CHECK(has(result.err, "exited with code 3"));
  CHECK(has(result.err, "not restarted: processes of the last round could not be killed"));
  CHECK_FALSE(has(result.err, "restarting the workers"));
  freezer.thaw();
  CHECK(test::eventually([&] { return test::processes_with(job.job.mark_entry()).empty(); }));
}

TEST_CASE("an agent that is stuck in the kernel does not keep the warden from ending the job") {
  Freezer freezer;
  test::Job job;
  test::Child child(
      test::Job::command({"--grace-period=0.1", "--kill-timeout=0.5", "--nproc-per-node=2"},
                         {"print", "here", "sleep", "60"}),
      job.settings());
  REQUIRE(child.wait_for_output("[rank0] here"));
  REQUIRE(child.wait_for_output("[rank1] here"));
  pid_t agent = -1;
  for (const pid_t pid : called("ddp-agent", job.mark_entry())) {
    if (pid != child.pid()) agent = pid;
  }
  REQUIRE(agent > 0);
  freezer.freeze(agent);
  child.signal(SIGTERM);
  const auto result = child.wait();
  CHECK(result.status == 71);
  CHECK(
      has(result.err, "the agent (pid " + std::to_string(agent) + ") did not end the job in time"));
  CHECK(has(result.err,
            "could not be killed: pid " + std::to_string(agent) + " (ddp-agent), state D"));
  CHECK(called("job_worker", job.mark_entry()).empty());  // though their parent is stuck
  freezer.thaw();
  CHECK(test::eventually([&] { return test::processes_with(job.mark_entry()).empty(); }));
}

TEST_CASE("shared memory that killed workers and their children left is removed, and no other") {
  // As PyTorch names it: by the process that made it.
  const std::string mark = test::unique_mark();
  const std::string ours = "/dev/shm/torch_" + std::to_string(getpid()) + "_1_" + mark;
  std::ofstream(ours) << "x";
  // In sessions of their own, so that no worker reaps its child: of that ddprun would not know.
  ShellJob job("export END=1_" + mark + R"(
setsid sh -c ': > /dev/shm/torch_$$_$END; exec sleep 60' &
: > /dev/shm/torch_$$_$END
while [ $(ls /dev/shm | grep -c "torch_[0-9]*_$END") -lt 11 ]; do sleep 0.01; done
kill -9 $$
)");
  const auto left = [&mark] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      if (has(entry.path().string(), mark)) names.push_back(entry.path().string());
    return names;
  };
  const int kills = 10 * test::repeats("DDPRUN_TEST_ENDINGS", 2);
  for (int killed = 0; killed < kills; killed += 10) {
    CHECK(job.run({"--nproc-per-node=5"}).status == 137);
    REQUIRE(left() == std::vector<std::string>{ours});
  }
  std::filesystem::remove(ours);
}
