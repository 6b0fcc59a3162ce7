// A rank that is slow is named, and none that only waits for it. Takes half a minute for each job.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/launcher/named_job.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using test::NamedJob;

namespace {

/// Steps in lockstep: rank 1 computes for `seconds`, rank 0 for 50 ms.
std::vector<std::string> lockstep(const std::string& seconds) {
  if (access("/usr/bin/python3", X_OK) != 0) test::skip("no /usr/bin/python3 here");
  return {"/usr/bin/python3", "-c", R"(
import os, sys, time
sys.path.insert(0, sys.argv[1])
from ddprun import progress
busy = float(sys.argv[2]) if os.environ["RANK"] == "1" else 0.05
for step in range(100000):
    begin = time.monotonic()
    if step % 100 == 50:
        progress(step, "evaluate"); time.sleep(0.3)
        if os.environ["RANK"] == "0":
            progress(step, "checkpoint"); time.sleep(0.2)
        progress(step, "barrier")
        time.sleep(max(0, begin + 0.6 - time.monotonic()))
        begin = time.monotonic()
    progress(step, "compute"); time.sleep(busy)
    progress(step, "all-reduce"); time.sleep(max(0, begin + 0.08 - time.monotonic()))
)",
          DDPRUN_SOURCE "/python", seconds};
}

}  // namespace

TEST_CASE("a rank with steps that take 1.3 times as long is named, and stands in the status") {
  NamedJob job(lockstep("0.065"), {});
  REQUIRE(job.job().wait_for([](auto&, const std::string& err) {
    return err.find("rank 1 is slow: a step takes it ") != std::string::npos;
  }));
  CHECK_THAT(job.ctl({"status", job.id()}).out, Contains("running, slow (1."));
  CHECK_THAT(job.ctl({"events", job.id()}).out, Contains("worker_slow  rank=1 "));
  job.ctl({"stop", job.id()});
  CHECK_THAT(job.end(128 + SIGTERM), !Contains("rank 0 is slow"));
}

TEST_CASE("nobody is named where steps take equally long, with evaluations and checkpoints") {
  NamedJob job(lockstep("0.05"), {});
  std::this_thread::sleep_for(40s);
  job.ctl({"stop", job.id()});
  CHECK_THAT(job.end(128 + SIGTERM), !Contains("is slow"));
}
