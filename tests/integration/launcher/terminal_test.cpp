// The terminal: Ctrl-C, Ctrl-Z and fg, and its size.
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

TEST_CASE("a job in the background leaves the shell its line, and reads after fg") {
  const std::string workers = GENERATE("1", "2");
  const std::string mark = test::unique_mark();
  OnTerminal terminal({"/bin/bash", "--norc", "--noprofile", "-i"}, mark);
  terminal.type("'" + test::program("ddprun") + "' --nproc-per-node=" + workers +
                " /bin/sh -c '[ $RANK = 1 ] && exec sleep 60; printf \"as%s\\n\" ks; "
                "read x && echo \"answer:$x.\"; read x || echo at its \"en\"d; sleep 60' &\n");
  REQUIRE(terminal.wait_for("asks"));
  terminal.type("echo typed-$((40+2))\n");
  CHECK(terminal.wait_for("typed-42"));
  terminal.type("fg\n");
  // The shell may read until it has put the job in front.
  CHECK(test::eventually([&] {
    terminal.type(":\n");
    return terminal.wait_for("answer::.", 150ms);
  }));
  CHECK(terminal.shown.find("answer:echo") == std::string::npos);
  terminal.type("\x03");
  CHECK(test::eventually([&] { return named("ddprun", mark).empty(); }));
  terminal.type("exit\n");
  CHECK(terminal.wait() >= 0);
  CHECK(nothing_left(mark));
}

TEST_CASE("the end of input reaches a job that was started in the background") {
  const std::string mark = test::unique_mark();
  OnTerminal terminal({"/bin/bash", "--norc", "--noprofile", "-i"}, mark);
  terminal.type("'" + test::program("ddprun") +
                "' /bin/sh -c 'printf \"as%s\\n\" ks; cat; echo \"at its e\"nd' &\n");
  REQUIRE(terminal.wait_for("asks"));
  terminal.type("fg\n");
  REQUIRE(test::eventually([&] {
    terminal.type("echo in-$((20+3))\n");
    return test::count(terminal.shown, "echo in-$((20+3))\r\necho in-$((20+3))\r\n") > 0 ||
           terminal.wait_for("echo in-$((20+3))\r\necho in-$((20+3))\r\n", 150ms);
  }));
  terminal.type("\x04");
  CHECK(terminal.wait_for("at its end"));
  CHECK(test::eventually([&] { return named("ddprun", mark).empty(); }));
  terminal.type("exit\n");
  CHECK(terminal.wait() >= 0);
  CHECK(nothing_left(mark));
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
