// Too little memory. A sanitizer's own memory does not fit into such limits: the release build runs
// this.
#include <catch2/catch.hpp>
#include <string>

#include "tests/support/child.hpp"
#include "tests/support/job.hpp"

using namespace ddprun;

TEST_CASE("a job that gets no memory ends with one line and leaves no process") {
  // Many long arguments for many workers: the same line whether the plan or the agent lacks memory.
  const std::string words(120'000, 'x');
  int without_memory = 0;
  // With less the kernel may not even map a program that was built without optimization.
  for (int kilobytes = 10'000; kilobytes <= 24'000; kilobytes += 1'000) {
    CAPTURE(kilobytes);
    test::Job job;
    std::vector<std::string> command{
        "/bin/sh", "-c",
        "ulimit -v " + std::to_string(kilobytes) +
            "; exec \"$0\" --nproc-per-node=8 --omp-threads=1 /bin/true \"$@\"",
        test::program("ddprun")};
    command.insert(command.end(), 7, words);
    const auto result = test::run(command, job.settings());
    CHECK_FALSE(result.timed_out);
    CHECK(test::processes_with(job.mark_entry()).empty());
    CHECK(result.status < 128);
    if (result.status != 70) continue;
    ++without_memory;
    CHECK(result.err ==
          "ddprun: out of memory; raise its limit (ulimit -v, the container's memory)\n");
  }
  CHECK(without_memory > 0);
}
