// What a warden gets that must not starve, as far as this user may have it.
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/support/skip.hpp"
#include "warden/own_process.hpp"

using namespace ddprun;

namespace {

/// The exit code of `body`, in a process of its own.
template <class Body>
int code_of(Body body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(body());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

int out_of_memory_score() {
  int score = 0;
  std::ifstream("/proc/self/oom_score_adj") >> score;
  return score;
}

}  // namespace

TEST_CASE("a protected process runs before others and is ended last, and its children are not") {
  if (geteuid() != 0) test::skip("only root may have all of it");
  // Not every container allows it.
  const bool may_be_last = code_of([] {
                             std::ofstream("/proc/self/oom_score_adj") << "-900";
                             return out_of_memory_score() < 0 ? 0 : 1;
                           }) == 0;
  const int code = code_of([may_be_last] {
    warden::protect_from_starving();
    if (sched_getscheduler(0) != (SCHED_RR | SCHED_RESET_ON_FORK)) return 1;
    if (may_be_last != (out_of_memory_score() < 0)) return 2;
    const pid_t child = fork();
    if (child == 0) _exit(sched_getscheduler(0) == SCHED_OTHER ? 0 : 3);
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  });
  if (code == 1) test::skip("no priorities in this container");
  CHECK(code == 0);
}

TEST_CASE("a process that may have none of it goes on as it was") {
  const int code = code_of([] {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_RTPRIO, &none);
    setrlimit(RLIMIT_NICE, &none);
    setrlimit(RLIMIT_MEMLOCK, &none);
    if (geteuid() == 0 && setuid(12'345) != 0) return 77;
    warden::protect_from_starving();
    return sched_getscheduler(0) == SCHED_OTHER && getpriority(PRIO_PROCESS, 0) >= 0 ? 0 : 1;
  });
  if (code == 77) test::skip("the user cannot be changed here");
  CHECK(code == 0);
}
