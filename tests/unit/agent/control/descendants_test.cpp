// The processes below the agent: named, terminated and killed in turns of the loop.
#include "agent/control/descendants.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "base/describe.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// Processes below this one, of which every notice and every end is kept.
class Below {
 public:
  Below() {
    sigset_t child_ended;
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, nullptr);
    ::signal(SIGTERM, SIG_DFL);  // the children's: Catch2's handler would report a failed test
  }
  ~Below() { machine::kill_all_children(agent::Descendants::Clock::now() + 10s); }
  Below(const Below&) = delete;
  Below& operator=(const Below&) = delete;

  pid_t start() {
    const pid_t child = fork();
    if (child != 0) return child;
    while (true) pause();
  }

  boost::asio::io_context context;
  std::vector<std::string> notices;
  std::vector<pid_t> reaped;
  pid_t kept = -1;
  agent::Descendants processes{context,
                               nullptr,
                               {[this](const std::string& line) { notices.push_back(line); },
                                [this](pid_t pid) { reaped.push_back(pid); },
                                [this] {
                                  return machine::KeptProcesses{kept, {}};
                                }}};
};

}  // namespace

TEST_CASE("what else is to be done comes between the turns") {
  boost::asio::io_context context;
  std::string order;
  agent::in_turns(context, [&] {
    order += 't';
    return order.size() == 4;
  });
  boost::asio::post(context, [&] { order += '-'; });
  context.run();
  CHECK(order == "tt-t");
}

TEST_CASE("leftovers are named and sent SIGTERM") {
  Below below;
  const pid_t child = below.start();
  below.processes.terminate(2s, [] { return true; });
  below.context.run();
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WTERMSIG(status) == SIGTERM);
  REQUIRE(below.notices.size() == 1);
  CHECK(below.notices[0].starts_with("the workers have exited but left processes running: pid " +
                                     std::to_string(child)));
  CHECK(below.notices[0].ends_with("; sent SIGTERM, SIGKILL in " + describe(2s)));
}

TEST_CASE("leftovers that are not waited for any more are sent nothing") {
  Below below;
  const pid_t child = below.start();
  below.processes.terminate(2s, [] { return false; });
  below.context.run();
  CHECK(waitpid(child, nullptr, WNOHANG) == 0);
  CHECK(below.notices.empty());
}

TEST_CASE("killed processes are reaped before the kill has ended") {
  Below below;
  const pid_t child = below.start();
  int ends = 0;
  SECTION("in turns") {
    below.processes.kill(0, 10s, [&] {
      ++ends;
      CHECK(below.reaped == std::vector<pid_t>{child});
    });
    below.context.run();
    CHECK(ends == 1);
  }
  SECTION("in one call") { below.processes.kill_now(0, 10s); }
  SECTION("without a word") { CHECK(below.processes.kill_silently(10s).empty()); }
  CHECK(below.reaped == std::vector<pid_t>{child});
  CHECK_FALSE(machine::has_children());
  CHECK(below.processes.unkillable().empty());
  CHECK(below.notices.empty());
}

TEST_CASE("a kill that waits for nothing reaps nothing") {
  Below below;
  const pid_t child = below.start();
  below.processes.send_kill();
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WTERMSIG(status) == SIGKILL);
  CHECK(below.reaped.empty());
}

TEST_CASE("one process may stay while all else is found, signalled and killed") {
  Below below;
  const pid_t child = below.start();
  below.kept = below.start();
  CHECK(below.processes.any());
  SECTION("terminated") {
    below.processes.terminate(2s, [] { return true; });
    below.context.run();
    REQUIRE(below.notices.size() == 1);
    CHECK_THAT(below.notices[0], !Catch::Matchers::Contains(std::to_string(below.kept)));
    REQUIRE(waitpid(child, nullptr, 0) == child);
  }
  SECTION("killed in turns") {
    below.processes.kill(0, 10s, [] {});
    below.context.run();
    CHECK(below.reaped == std::vector<pid_t>{child});
  }
  SECTION("killed in one call") {
    below.processes.kill_now(0, 10s);
    CHECK(below.reaped == std::vector<pid_t>{child});
  }
  SECTION("killed without waiting") {
    below.processes.send_kill();
    REQUIRE(waitpid(child, nullptr, 0) == child);
  }
  CHECK_FALSE(below.processes.any());
  CHECK(machine::has_children());
  CHECK(waitpid(below.kept, nullptr, WNOHANG) == 0);  // it runs
}
