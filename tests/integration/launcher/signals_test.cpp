// Signals, the terminal, and odd surroundings: Ctrl-C, Ctrl-Z and fg, nohup, PID 1, a frozen agent.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <sstream>

#include "tests/support/child.hpp"
#include "tests/support/job.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

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

bool nothing_left(const std::string& mark) {
  return test::eventually([&] { return test::processes_with("TEST_MARK=" + mark).empty(); }, 5s);
}

int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto at = text.rfind(')');
  return at == std::string::npos ? 'X' : text[at + 2];
}

pid_t agent_of(pid_t warden, const std::string& mark) {
  for (const pid_t pid : test::processes_with("TEST_MARK=" + mark)) {
    if (test::parent_of(pid) == warden) return pid;
  }
  return -1;
}

std::vector<pid_t> named(const std::string& name, const std::string& mark) {
  std::vector<pid_t> found;
  for (const pid_t pid : test::processes_with("TEST_MARK=" + mark)) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string actual;
    std::getline(file, actual);
    if (actual == name) found.push_back(pid);
  }
  return found;
}

/// A program under a terminal of its own, as from an interactive shell without job control of its
/// own.
class OnTerminal {
 public:
  OnTerminal(const std::vector<std::string>& command, const std::string& mark) {
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    pid_ = forkpty(&master_, nullptr, nullptr, nullptr);
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      setenv("TEST_MARK", mark.c_str(), 1);
      setenv("OMP_NUM_THREADS", "1", 1);
      setenv("NO_COLOR", "1", 1);
      execvp(argv[0], argv.data());
      _exit(127);
    }
  }
  ~OnTerminal() {
    if (!ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(master_);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  void type(const std::string& keys) const {
    REQUIRE(write(master_, keys.data(), keys.size()) > 0);
  }
  bool wait_for(const std::string& text, std::chrono::milliseconds limit = 10s) {
    return test::eventually(
        [&] {
          read_some();
          return shown.find(text) != std::string::npos;
        },
        limit);
  }
  /// Exit code, 128 + signal, or -1 after the limit.
  int wait() {
    int status = 0;
    const bool done = test::eventually(
        [&] {
          read_some();
          return waitpid(pid_, &status, WNOHANG) == pid_;
        },
        20s);
    if (!done) return -1;
    ended_ = true;
    read_some();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void resize(unsigned short rows, unsigned short columns) const {
    const winsize size{rows, columns, 0, 0};
    REQUIRE(ioctl(master_, TIOCSWINSZ, &size) == 0);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  std::string shown;

 private:
  void read_some() {
    pollfd entry{master_, POLLIN, 0};
    char buffer[4096];
    while (poll(&entry, 1, 0) > 0 && (entry.revents & POLLIN) != 0) {
      const ssize_t n = read(master_, buffer, sizeof buffer);
      if (n <= 0) return;
      shown.append(buffer, static_cast<std::size_t>(n));
    }
  }
  int master_ = -1;
  pid_t pid_ = -1;
  bool ended_ = false;
};

}  // namespace

TEST_CASE("one Ctrl-C on a terminal reaches every worker once and ends the job with 130") {
  const std::string mark = test::unique_mark();
  OnTerminal terminal(job({"--nproc-per-node=2", "--grace-period=0.5"},
                          {"signals", "print", "ready", "sleep", "60"}),
                      mark);
  REQUIRE(terminal.wait_for("[rank0] ready"));
  REQUIRE(terminal.wait_for("[rank1] ready"));
  terminal.type("\x03");
  CHECK(terminal.wait() == 130);
  CHECK(count(terminal.shown, "[rank0] got signal 2") == 1);
  CHECK(count(terminal.shown, "[rank1] got signal 2") == 1);
  CHECK(count(terminal.shown, "SIGINT: stopping the workers") == 1);
  CHECK(terminal.shown.find("killing them") != std::string::npos);  // they went on after the signal
  CHECK(nothing_left(mark));
}

TEST_CASE("a second Ctrl-C kills at once") {
  const std::string mark = test::unique_mark();
  OnTerminal terminal(job({"--nproc-per-node=2", "--grace-period=600"},
                          {"signals", "print", "ready", "sleep", "60"}),
                      mark);
  REQUIRE(terminal.wait_for("[rank0] ready"));
  REQUIRE(terminal.wait_for("[rank1] ready"));
  terminal.type("\x03");
  REQUIRE(terminal.wait_for("[rank1] got signal 2"));
  // Equal signals within 100 ms are one event; keys are typed until one comes later than that.
  REQUIRE(test::eventually([&] {
    terminal.type("\x03");
    return terminal.wait_for("SIGINT again", 150ms);
  }));
  CHECK(terminal.wait() == 130);
  CHECK(nothing_left(mark));
}

TEST_CASE("workers under a terminal see a terminal") {
  const std::string mark = test::unique_mark();
  OnTerminal terminal({test::program("ddprun"), "--nproc-per-node=2", "/bin/sh", "-c",
                       "test -t 1 && test -t 2 && echo tty"},
                      mark);
  CHECK(terminal.wait() == 0);
  CHECK(count(terminal.shown, "] tty") == 2);
}

TEST_CASE("workers' terminals follow the size of ours, less the prefix") {
  const std::string mark = test::unique_mark();
  OnTerminal terminal({test::program("ddprun"), "--nproc-per-node=2", "/bin/sh", "-c",
                       "echo ready; while [ \"$(stty size <&2)\" != '33 103' ]; do sleep 0.02; "
                       "done; echo resized"},
                      mark);
  REQUIRE(terminal.wait_for("[rank0] ready"));
  REQUIRE(terminal.wait_for("[rank1] ready"));
  terminal.resize(33, 111);
  CHECK(terminal.wait() == 0);
  CHECK(count(terminal.shown, "] resized") == 2);
}

TEST_CASE("while workers take their time to stop it is said for how long they still may") {
  const std::string mark = test::unique_mark();
  OnTerminal terminal(job({"--nproc-per-node=2", "--grace-period=6"},
                          {"signals", "print", "ready", "rank", "0", "sleep", "60"}),
                      mark);
  REQUIRE(terminal.wait_for("[rank0] ready"));
  REQUIRE(terminal.wait_for("[rank1] ready"));
  terminal.type("\x03");
  CHECK(terminal.wait_for("waiting for 1 of 2 workers; SIGKILL in 1 s"));
  CHECK(terminal.wait() == 130);
}

TEST_CASE("Ctrl-Z stops the workers and then ddprun, and fg continues both") {
  const std::string mark = test::unique_mark();
  OnTerminal terminal({"/bin/bash", "--norc", "--noprofile", "-i"}, mark);
  std::string command = "PS1='prompt'; ";
  for (const std::string& word :
       job({"--nproc-per-node=2"}, {"signals", "print", "ready", "sleep", "60"})) {
    command += "'" + word + "' ";
  }
  terminal.type(command + "\n");
  REQUIRE(terminal.wait_for("[rank0] ready"));
  REQUIRE(terminal.wait_for("[rank1] ready"));
  terminal.type("\x1a");
  REQUIRE(terminal.wait_for("Stopped"));
  const std::vector<pid_t> workers = named("job_worker", mark);
  REQUIRE(workers.size() == 2);
  for (const pid_t pid : workers) CHECK(test::eventually([&] { return state_of(pid) == 'T'; }));
  for (const pid_t pid : named("ddprun", mark)) CHECK(state_of(pid) == 'T');
  terminal.type("fg\n");
  CHECK(terminal.wait_for("[rank0] got signal 18"));
  CHECK(terminal.wait_for("[rank1] got signal 18"));
  terminal.type("\x03");
  REQUIRE(terminal.wait_for("got signal 2"));
  terminal.type("\x03");
  test::eventually([&] {
    terminal.type("\x03");
    return terminal.wait_for("SIGINT again", 150ms);
  });
  CHECK(test::eventually([&] { return named("job_worker", mark).empty(); }));
  terminal.type("exit\n");
  CHECK(terminal.wait() >= 0);
  CHECK(nothing_left(mark));
}

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

TEST_CASE("a forwarded signal reaches the workers and ends nothing") {
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

TEST_CASE("ddprun works as PID 1 and leaves nobody behind") {
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

TEST_CASE("an agent that somebody stops is continued in time, or the job ends") {
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

TEST_CASE("the process that a user starts is the only one that is called ddprun") {
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
