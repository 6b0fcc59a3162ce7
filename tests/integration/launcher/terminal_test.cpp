// The terminal: Ctrl-C, Ctrl-Z and fg, and its size.
#include <algorithm>
#include <string_view>

#include "agent/progress/thread_states.hpp"
#include "tests/integration/launcher/marked_job.hpp"
#include "tests/integration/launcher/on_terminal.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using test::count;
using test::named;
using test::nothing_left;
using test::OnTerminal;
using test::state_of;

TEST_CASE("one Ctrl-C on a terminal reaches every worker once and ends the job with 130") {
  const std::string mark = test::unique_mark();
  OnTerminal terminal(test::Job::command({"--nproc-per-node=2", "--fold=off", "--grace-period=0.5"},
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
  OnTerminal terminal(test::Job::command({"--nproc-per-node=2", "--fold=off", "--grace-period=600"},
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
  OnTerminal terminal({test::program("ddprun"), "--nproc-per-node=2", "--fold=off", "/bin/sh", "-c",
                       "test -t 1 && test -t 2 && echo tty"},
                      mark);
  CHECK(terminal.wait() == 0);
  CHECK(count(terminal.shown, "] tty") == 2);
}

TEST_CASE("workers' terminals follow the size of ours, less the prefix") {
  const std::string mark = test::unique_mark();
  OnTerminal terminal({test::program("ddprun"), "--nproc-per-node=2", "--fold=off", "/bin/sh", "-c",
                       "echo ready; while [ \"$(stty size <&2)\" != '33 103' ]; do sleep 0.02; "
                       "done; echo resized"},
                      mark);
  REQUIRE(terminal.wait_for("[rank0] ready"));
  REQUIRE(terminal.wait_for("[rank1] ready"));
  terminal.resize(33, 111);
  CHECK(terminal.wait() == 0);
  CHECK(count(terminal.shown, "] resized") == 2);
}

TEST_CASE("while workers are slow to stop the remaining time is printed") {
  const std::string mark = test::unique_mark();
  OnTerminal terminal(test::Job::command({"--nproc-per-node=2", "--fold=off", "--grace-period=6"},
                                         {"signals", "print", "ready", "rank", "0", "sleep", "60"}),
                      mark);
  REQUIRE(terminal.wait_for("[rank0] ready"));
  REQUIRE(terminal.wait_for("[rank1] ready"));
  terminal.type("\x03");
  CHECK(terminal.wait_for("waiting for 1 of 2 workers; SIGKILL in 1 s"));
  CHECK(terminal.wait() == 130);
}

namespace {

constexpr const char* kAsks = "printf \"as%s\\n\" ks; ";

/// An interactive shell with job control.
class Shell {
 public:
  Shell() : terminal({"/bin/bash", "--norc", "--noprofile", "-i"}, mark_) {
    terminal.type("PS1='>''> '\n");
  }
  /// Once there is a prompt: it may lose what is typed before.
  void run(const std::string& line) {
    REQUIRE(terminal.wait_for(kPrompt, 10s, seen_));
    seen_ = terminal.shown.find(kPrompt, seen_) + std::string_view(kPrompt).size();
    terminal.type(line + "\n");
  }
  /// `ddprun OPTIONS /bin/sh -c SCRIPT`; a second worker only sleeps.
  void run_job(const std::string& options, const std::string& script, const std::string& behind) {
    run("'" + test::program("ddprun") + "' " + options +
        " /bin/sh -c '[ $RANK = 1 ] && exec sleep 60; " + script + "'" + behind);
    REQUIRE(terminal.wait_for("asks"));
  }
  /// The shell gets the line.
  bool takes(const std::string& line, const std::string& result) {
    return test::eventually([&] {
      terminal.type(line + "\n");
      return terminal.wait_for(result, 150ms);
    });
  }
  /// Puts the job in front and gives it the answer `fg`. The shell may lose keys that come while it
  /// prepares its prompt, so they are typed until one of them has reached the job.
  bool answers_in_front() {
    return test::eventually([&] {
      terminal.type("fg\n");
      return terminal.wait_for("answer:fg.", 150ms);
    });
  }
  /// Ends the job, and then the shell.
  void end() {
    CHECK(test::eventually([&] {
      terminal.type("\x03");
      terminal.wait_for("exit", 150ms, terminal.shown.size());
      return named("ddprun", mark_).empty();
    }));
    CHECK(test::eventually([&] {
      terminal.type("exit\n");
      terminal.wait_for("exit", 50ms, terminal.shown.size());
      return named("bash", mark_).empty();
    }));
    CHECK(terminal.wait() >= 0);
    CHECK(nothing_left(mark_));
  }
  [[nodiscard]] bool worker_waits() const {
    const std::vector<pid_t> shells = named("sh", mark_);
    return std::any_of(shells.begin(), shells.end(),
                       [](pid_t pid) { return agent::waits_for_stdin(pid); });
  }
  [[nodiscard]] bool worker_is_stopped() const {
    const std::vector<pid_t> shells = named("sh", mark_);
    return std::all_of(shells.begin(), shells.end(),
                       [](pid_t pid) { return state_of(pid) == 'T'; });
  }

 private:
  static constexpr const char* kPrompt = ">> ";
  const std::string mark_ = test::unique_mark();
  std::size_t seen_ = 0;

 public:
  OnTerminal terminal;
};

}  // namespace

TEST_CASE("a job in the background leaves the shell its line, and reads after fg") {
  const std::string workers = GENERATE("1", "2");
  Shell shell;
  shell.run_job("--nproc-per-node=" + workers,
                kAsks + std::string("read x; echo \"answer:$x.\"; sleep 60"), " &");
  CHECK(shell.takes("echo typed-$((40+2))", "typed-42"));
  CHECK(shell.answers_in_front());
  CHECK(shell.terminal.shown.find("answer:echo") == std::string::npos);
  shell.end();
}

TEST_CASE("a worker that reads stops the job again after Ctrl-Z and bg, until fg") {
  const std::string workers = GENERATE("1", "2");
  Shell shell;
  shell.run_job("--nproc-per-node=" + workers,
                kAsks + std::string("read x; echo \"answer:$x.\"; sleep 60"), "");
  REQUIRE(test::eventually([&] { return shell.worker_waits(); }));
  shell.terminal.type("\x1a");
  REQUIRE(shell.terminal.wait_for("Stopped"));
  // A reader that has been woken for the signal takes what comes before it runs.
  REQUIRE(test::eventually([&] { return shell.worker_is_stopped(); }));
  for (int times = 2; times <= 3; ++times) {
    // The shell tells of it before its next prompt.
    CHECK(test::eventually([&] {
      shell.run("bg");
      return count(shell.terminal.shown, "Stopped") >= times;
    }));
  }
  CHECK(shell.takes("echo typed-$((40+2))", "typed-42"));
  CHECK(shell.answers_in_front());
  shell.end();
}

TEST_CASE("the end of input reaches a job that was started in the background") {
  Shell shell;
  shell.run_job("", kAsks + std::string("read x; echo \"answer:$x.\"; cat; echo \"at its e\"nd"),
                " &");
  REQUIRE(shell.answers_in_front());
  shell.terminal.type("\x04");
  CHECK(shell.terminal.wait_for("at its end"));
  shell.end();
}

TEST_CASE("Ctrl-Z stops the workers and then ddprun, and fg continues both") {
  const std::string mark = test::unique_mark();
  OnTerminal terminal({"/bin/bash", "--norc", "--noprofile", "-i"}, mark);
  std::string command = "PS1='prompt'; ";
  for (const std::string& word : test::Job::command({"--nproc-per-node=2", "--fold=off"},
                                                    {"signals", "print", "ready", "sleep", "60"})) {
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
