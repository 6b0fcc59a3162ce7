// Which sockets are those of jobs, and which job is meant.
#include "launcher/ctl/jobs_here.hpp"

#include <catch2/catch.hpp>

using namespace ddprun::ctl;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kSockets =
    R"(Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 17811 /run/systemd/private
0000000000000000: 00000003 00000000 00000000 0001 03 17812 @ddprun/1000/train7
0000000000000000: 00000002 00000000 00010000 0001 01 17813 @ddprun/1000/train7
0000000000000000: 00000002 00000000 00010000 0001 01 17814 @ddprun/1000/train8.4242
0000000000000000: 00000002 00000000 00010000 0001 01 17815 @ddprun/1001/of another user
0000000000000000: 00000002 00000000 00010000 0001 01 17816 @ddprun/train9
0000000000000000: 00000002 00000000 00010000 0001 01 17817
0000000000000000: 00000002)";

std::vector<std::string> names(const std::vector<JobSocketName>& jobs) {
  std::vector<std::string> found;
  for (const JobSocketName& job : jobs) found.push_back(job.job);
  return found;
}

}  // namespace

TEST_CASE("jobs are the sockets of their name that accept connections") {
  const auto mine = jobs_in(kSockets, 1000);
  CHECK(names(mine) == std::vector<std::string>{"train7", "train8.4242"});
  CHECK(mine[0].address == "@ddprun/1000/train7");
  CHECK(mine[0].user == 1000);
  CHECK(names(jobs_in(kSockets, 1001)) == std::vector<std::string>{"of another user"});
  CHECK(names(jobs_in(kSockets, 0)) ==
        std::vector<std::string>{"1000/train7", "1000/train8.4242", "1001/of another user"});
  CHECK(jobs_in("", 0).empty());
}

TEST_CASE("a job is named by its name, by its beginning, or is the only one") {
  const auto jobs = jobs_in(kSockets, 1000);
  CHECK(chosen_job(jobs, "train7", "")->job == "train7");
  CHECK(chosen_job(jobs, "train8", "")->job == "train8.4242");
  CHECK(chosen_job(jobs, "", "@ddprun/1000/train7")->job == "train7");
  CHECK(chosen_job(jobs, "train", "").error().is_ambiguous);
  CHECK_FALSE(chosen_job(jobs, "x", "").error().is_ambiguous);
  const JobSocketName with_long_id{"@ddprun/1000/" + std::string(64, 'i'), 1000,
                                   std::string(64, 'i')};
  CHECK(chosen_job({jobs[0], with_long_id}, std::string(70, 'i'), "")->job == with_long_id.job);
  CHECK(chosen_job({jobs[1]}, "", "")->job == "train8.4242");
  CHECK(chosen_job({jobs[1]}, "", "@ddprun/1000/ended")->job == "train8.4242");
  CHECK_THAT(chosen_job(jobs, "", "").error().text,
             Contains("2 jobs run here: say which one, as JOB: train7, train8.4242"));
  CHECK_THAT(chosen_job(jobs, "train", "").error().text, Contains("2 jobs begin so"));
  CHECK(chosen_job(jobs, "x\n", "").error().text ==
        "no job here is called x\\n; there is train7, train8.4242");
  CHECK(chosen_job({}, "", "").error().text == "no job of this user runs on this machine");
}
