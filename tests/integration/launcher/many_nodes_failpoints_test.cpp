// rdzvd dies at each point of its journal's work and is started again, as systemd would do it.
#include "rendezvous/service/journal_format.hpp"
#include "tests/integration/launcher/surviving_job.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

/// The job has seen many agents come and go: a snapshot is due as soon as it is at rest.
void add_past(const TempDir& state) {
  const std::string run_id = "none";
  const rdzv::Clock::time_point then{1ms};
  std::string bytes = rdzv::journal_head(run_id);
  for (std::size_t i = 0; i < rdzv::SnapshotSettings{}.records; ++i) {
    const std::string agent = "agent" + std::to_string(i);
    rdzv::append_journal_frame(bytes, {run_id, then, rdzv::SessionBegan{agent, "", 15s, 0s}});
    rdzv::append_journal_frame(bytes, {run_id, then, rdzv::SessionOver{agent}});
  }
  std::ofstream(state / (run_id + ".journal"), std::ios::binary) << bytes;
}

/// It dies at the point for the `nth` time.
void survives(const std::string& point, int nth, bool is_old = false) {
  const std::string failpoint = point + ":" + std::to_string(nth);
  INFO(failpoint);
  SurvivingJob job;
  if (is_old) add_past(job.state());
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

TEST_CASE("a job survives an rdzvd that dies while a snapshot takes the place of its journal") {
  survives(GENERATE(as<std::string>{}, "new_before_write", "new_torn_write", "new_before_sync",
                    "new_after_sync", "new_before_rename", "new_after_rename"),
           1, true);
}

TEST_CASE("a job survives an rdzvd that dies while it starts") {
  survives(GENERATE(as<std::string>{}, "before_rename", "after_rename"), 1);
}
