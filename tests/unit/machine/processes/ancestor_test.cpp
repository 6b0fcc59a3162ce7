// The nearest ancestor with a name.
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>

#include "machine/processes/process_tree.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using machine::find_ancestor;

namespace {

bool has_ended(const UniqueFd& pidfd, std::chrono::milliseconds limit) {
  pollfd waited{pidfd.get(), POLLIN, 0};
  return poll(&waited, 1, static_cast<int>(limit.count())) == 1;
}

/// What `child` finds in a child of a process with this name, as its exit status.
template <class Child>
int below_a_process_called(const char* name, const Child& child) {
  const pid_t named = fork();
  if (named == 0) {
    prctl(PR_SET_NAME, name);
    const pid_t below = fork();
    if (below == 0) _exit(child());
    int status = 0;
    waitpid(below, &status, 0);
    _exit(WEXITSTATUS(status));
  }
  int status = 0;
  waitpid(named, &status, 0);
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("an ancestor is found by the beginning of its name") {
  CHECK(below_a_process_called("test-stepd-wlm", [] {
          const auto found = find_ancestor({"other", "test-stepd"});
          if (!found) return 1;
          return found->pid == getppid() && found->name == "test-stepd-wlm" &&
                         !has_ended(found->pidfd, 0ms)
                     ? 0
                     : 2;
        }) == 0);
}

TEST_CASE("the nearest of several ancestors is found") {
  CHECK(below_a_process_called("test-stepd", [] {
          return below_a_process_called("test-orted", [] {
            const auto found = find_ancestor({"test-stepd", "test-orted"});
            return found && found->name == "test-orted" ? 0 : 1;
          });
        }) == 0);
}

TEST_CASE("the end of an ancestor is seen") {
  std::array<int, 2> answer{};
  REQUIRE(pipe(answer.data()) == 0);
  below_a_process_called("test-stepd", [&] {
    const auto found = find_ancestor({"test-stepd"});
    char seen = 'n';
    if (found && !has_ended(found->pidfd, 0ms)) {
      kill(found->pid, SIGKILL);
      if (has_ended(found->pidfd, 10s)) seen = 'y';
    }
    return static_cast<int>(write(answer[1], &seen, 1));
  });
  char seen = '?';
  CHECK(read(answer[0], &seen, 1) == 1);
  CHECK(seen == 'y');
  for (const int end : answer) close(end);
}

TEST_CASE("no ancestor is found by a name that none has, by no name, or by that of this process") {
  CHECK_FALSE(find_ancestor({"test-nobody"}).has_value());
  CHECK_FALSE(find_ancestor({}).has_value());
  CHECK(below_a_process_called("test-other", [] {
          prctl(PR_SET_NAME, "test-self");
          return find_ancestor({"test-self"}) ? 1 : 0;
        }) == 0);
}
