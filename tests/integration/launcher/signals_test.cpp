// Signals and odd surroundings: nohup, PID 1, a frozen agent.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/integration/launcher/marked_job.hpp"
#include "tests/support/child.hpp"
#include "tests/support/job.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using test::count;
using test::named;
using test::nothing_left;
using test::state_of;

namespace {

std::vector<std::string> job(std::vector<std::string> options,
                             const std::vector<std::string>& actions) {
  return test::Job::command(std::move(options), actions);
}

test::ChildOptions marked(const std::string& mark) {
  test::ChildOptions settings;
  settings.environment = {{"TEST_MARK", mark}, {"OMP_NUM_THREADS", "1"}};
  return settings;
}

pid_t agent_of(pid_t warden, const std::string& mark) {
  for (const pid_t pid : test::processes_with("TEST_MARK=" + mark)) {
    if (test::parent_of(pid) == warden) return pid;
  }
  return -1;
}

}  // namespace

TEST_CASE("SIGTERM gives the workers the grace period and ends with 143") {
  const std::string mark = test::unique_mark();
  test::Child child(
      job({"--nproc-per-node=2", "--grace-period=20"}, {"print", "ready", "sleep", "60"}),
      marked(mark));
  REQUIRE(child.wait_for(
      [](const std::string& out, const std::string&) { return count(out, "ready") == 2; }));
  child.signal(SIGTERM);
  const auto result = child.wait();
  CHECK(result.status == 128 + SIGTERM);
  CHECK(result.err.find("stopped by SIGTERM") != std::string::npos);
  CHECK(nothing_left(mark));
}

TEST_CASE("a signal to the agent itself ends the job as one to ddprun does") {
  const std::string mark = test::unique_mark();
  test::Child child(job({"--nproc-per-node=2"}, {"print", "ready", "sleep", "60"}), marked(mark));
  REQUIRE(child.wait_for(
      [](const std::string& out, const std::string&) { return count(out, "ready") == 2; }));
  const pid_t agent = agent_of(child.pid(), mark);
  REQUIRE(agent > 0);
  kill(agent, SIGTERM);
  CHECK(child.wait().status == 128 + SIGTERM);
  CHECK(nothing_left(mark));
}

TEST_CASE("a forwarded signal reaches the workers and does not end the job") {
  const std::string mark = test::unique_mark();
  test::Child child(
      {test::program("ddprun"), "--nproc-per-node=2", "--forward-signals=USR1", "/bin/sh", "-c",
       "trap 'echo got it; exit 0' USR1; echo ready; while :; do sleep 0.02; done"},
      marked(mark));
  REQUIRE(child.wait_for_output("[rank0] ready"));
  REQUIRE(child.wait_for_output("[rank1] ready"));
  child.signal(SIGUSR1);
  const auto result = child.wait();
  CHECK(result.status == 0);
  CHECK(count(result.out, "] got it") == 2);
  CHECK(nothing_left(mark));
}

TEST_CASE("a signal that is not to be handled ends ddprun itself and with it the job") {
  const std::string mark = test::unique_mark();
  test::Child child(job({"--nproc-per-node=2", "--signals-to-handle=SIGTERM"},
                        {"signals", "print", "ready", "sleep", "60"}),
                    marked(mark));
  REQUIRE(child.wait_for_output("[rank0] ready"));
  REQUIRE(child.wait_for_output("[rank1] ready"));
  child.signal(SIGINT);
  const auto result = child.wait();
  CHECK(result.status == 128 + SIGINT);
  CHECK(result.out.find("got signal") == std::string::npos);
  CHECK(nothing_left(mark));
}

TEST_CASE("a job under nohup outlives the terminal's hang-up") {
  const std::string mark = test::unique_mark();
  std::vector<std::string> command{"nohup"};
  for (const std::string& word :
       job({"--nproc-per-node=2"}, {"signals", "print", "ready", "sleep", "1.5", "print", "end"})) {
    command.push_back(word);
  }
  test::Child child(command, marked(mark));
  REQUIRE(child.wait_for(
      [](const std::string& out, const std::string&) { return count(out, "ready") == 2; }));
  child.signal(SIGHUP);
  const auto result = child.wait();
  CHECK(result.status == 0);
  CHECK(count(result.out, "end") == 2);
  CHECK(result.out.find("got signal 1") == std::string::npos);
}

TEST_CASE("when the scheduler's process on the node is killed, the job ends as after SIGTERM") {
  // A shell with the name of Slurm's process.
  const test::TempDir folder;
  const std::string scheduler = (folder.path() / "slurmstepd").string();
  std::filesystem::copy_file("/bin/sh", scheduler);
  const bool in_slurm = GENERATE(true, false);
  const std::string mark = test::unique_mark();
  test::ChildOptions settings = marked(mark);
  if (in_slurm) settings.environment.emplace_back("SLURM_JOB_ID", "7");
  const std::string output = (folder.path() / "output").string();
  const auto written = [&] {
    std::ostringstream text;
    text << std::ifstream(output).rdbuf();
    return text.str();
  };
  // Not its own child: a shell is between them, as a user's script.
  std::vector<std::string> command{
      scheduler, "-c", "sh -c '\"$@\"; exit $?' sh \"$@\" > " + output + " 2>&1 & wait", "sh"};
  for (const std::string& word :
       job({"--nproc-per-node=2"},
           {"print", "ready", "sleep", in_slurm ? "60" : "2", "print", "goodbye"})) {
    command.push_back(word);
  }
  test::Child child(command, settings);
  REQUIRE(test::eventually([&] { return count(written(), "ready") == 2; }, 30s));
  child.signal(SIGKILL);
  CHECK(nothing_left(mark));
  CHECK(count(written(), "goodbye") == (in_slurm ? 0 : 2));
  const std::string gone = "ddprun: slurmstepd (pid " + std::to_string(child.pid()) +
                           "), which has started ddprun here, is gone";
  CHECK(count(written(), gone) == (in_slurm ? 1 : 0));
  CHECK(count(written(), "stopped by SIGTERM") == (in_slurm ? 1 : 0));
  child.wait();
}

TEST_CASE("ddprun works as PID 1 and leaves no process behind") {
  if (test::run({"unshare", "--fork", "--pid", "--map-root-user", "/bin/true"}).status != 0) {
    test::skip("unshare(1) with a PID namespace is not allowed here");
  }
  const std::string mark = test::unique_mark();
  SECTION("a success") {
    std::vector<std::string> command{"unshare", "--fork", "--pid", "--map-root-user"};
    for (const std::string& word :
         job({"--nproc-per-node=2", "--grace-period=0.3"}, {"daemon", "print", "hello"}))
      command.push_back(word);
    const auto result = test::run(command, marked(mark));
    CHECK(result.status == 0);
    CHECK(count(result.out, "hello") == 2);
  }
  SECTION("a failure with restarts") {
    std::vector<std::string> command{"unshare", "--fork", "--pid", "--map-root-user"};
    for (const std::string& word :
         job({"--nproc-per-node=2", "--max-restarts=2", "--restart-delay=0"},
             {"daemon", "rank", "1", "exit", "5"})) {
      command.push_back(word);
    }
    CHECK(test::run(command, marked(mark)).status == 5);
  }
  CHECK(nothing_left(mark));
}

TEST_CASE("a frozen agent does not keep the job alive: the warden ends it") {
  const std::string mark = test::unique_mark();
  test::Child child(job({"--nproc-per-node=2", "--grace-period=0.2", "--kill-timeout=0.5"},
                        {"daemon", "print", "ready", "sleep", "60"}),
                    marked(mark));
  REQUIRE(child.wait_for(
      [](const std::string& out, const std::string&) { return count(out, "ready") == 2; }));
  const pid_t agent = agent_of(child.pid(), mark);
  REQUIRE(agent > 0);
  kill(agent, SIGSTOP);
  child.signal(SIGTERM);
  const auto result = child.wait();
  CHECK(result.status == 70);
  CHECK(result.err.find("did not end the job in time") != std::string::npos);
  CHECK(nothing_left(mark));
}

TEST_CASE("a stopped agent is continued in time, or the job ends") {
  const bool continued = GENERATE(true, false);
  CAPTURE(continued);
  const std::string mark = test::unique_mark();
  test::Child child(job({"--nproc-per-node=2", "--grace-period=0", "--kill-timeout=0.1"},
                        {"daemon", "print", "ready", "sleep", continued ? "7" : "60"}),
                    marked(mark));
  REQUIRE(child.wait_for(
      [](const std::string& out, const std::string&) { return count(out, "ready") == 2; }));
  const pid_t agent = agent_of(child.pid(), mark);
  REQUIRE(agent > 0);
  kill(agent, SIGSTOP);
  const std::string advice = "kill -CONT " + std::to_string(agent);
  REQUIRE(child.wait_for([&](const std::string&, const std::string& err) {
    return err.find(advice) != std::string::npos;
  }));
  if (continued) kill(agent, SIGCONT);
  const auto result = child.wait();
  CAPTURE(result.err);
  CHECK(result.status == (continued ? 0 : 70));
  CHECK((result.err.find("was stopped and not continued") != std::string::npos) != continued);
  CHECK(nothing_left(mark));
}

TEST_CASE("workers have their grace period when a second kind of signal comes right behind") {
  // The longest periods, too, are periods, on every way between our processes.
  const std::string grace = GENERATE("30", "1e9");
  CAPTURE(grace);
  const std::string mark = test::unique_mark();
  test::Child child({test::program("ddprun"), "--grace-period=" + grace, "--kill-timeout=1e9",
                     "--no-python", "/bin/sh", "-c",
                     "trap 'sleep 0.3; echo saved; exit 0' TERM; echo ready; "
                     "while :; do sleep 0.01; done"},
                    marked(mark));
  REQUIRE(child.wait_for_output("ready"));
  child.signal(SIGTERM);
  child.signal(SIGHUP);
  const auto result = child.wait();
  CAPTURE(result.err);
  CHECK(result.out.find("saved") != std::string::npos);
  CHECK(result.err.find("killing") == std::string::npos);
  CHECK(nothing_left(mark));
}

TEST_CASE("only the process that a user starts is called ddprun") {
  test::Job job;
  test::Child child(test::Job::command({"--nproc-per-node=2"}, {"print", "here", "sleep", "60"}),
                    job.settings());
  REQUIRE(child.wait_for_output("[rank0] here"));
  REQUIRE(child.wait_for_output("[rank1] here"));
  const std::string mark = job.mark_entry().substr(job.mark_entry().find('=') + 1);
  CHECK(named("ddprun", mark) == std::vector<pid_t>{child.pid()});
  const auto agents = named("ddp-agent", mark);
  REQUIRE(agents.size() == 1);
  std::ifstream file("/proc/" + std::to_string(agents[0]) + "/cmdline");
  std::string title;
  std::getline(file, title, '\0');
  CHECK(title == "ddprun: agent of " + std::to_string(child.pid()));
  // As `pkill -9 ddprun` does.
  child.signal(SIGKILL);
  child.wait();
  CHECK(test::eventually([&] { return test::processes_with(job.mark_entry()).empty(); }));
}
