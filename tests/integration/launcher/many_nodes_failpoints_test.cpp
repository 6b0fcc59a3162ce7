// rdzvd dies at each point of its journal's work and is started again, as systemd would do it.
#include "tests/integration/launcher/surviving_job.hpp"

using namespace ddprun::test;

namespace {

/// It dies at the point for the `nth` time.
void survives(const std::string& point, int nth) {
  const std::string failpoint = point + ":" + std::to_string(nth);
  INFO(failpoint);
  SurvivingJob job;
  job.start_rdzvd(failpoint);
  job.start_nodes();
  job.wait_for_death();
  job.start_rdzvd();
  job.check_outcome();
}

}  // namespace

TEST_CASE("a job survives an rdzvd that dies while it writes its journal") {
  const std::string point =
      GENERATE(as<std::string>{}, "before_write", "torn_write", "before_sync", "after_sync");
  survives(point, GENERATE(1, 2, 3, 5));
}

TEST_CASE("a job survives an rdzvd that dies when it has told one of two nodes") {
  survives("telling", GENERATE(1, 2, 3, 4));
}

TEST_CASE("a job survives an rdzvd that dies while it forgets the job") {
  survives(GENERATE(as<std::string>{}, "before_forget", "after_forget"), 1);
}

TEST_CASE("a job survives an rdzvd that dies while it starts") {
  survives(GENERATE(as<std::string>{}, "before_rename", "after_rename"), 1);
}
