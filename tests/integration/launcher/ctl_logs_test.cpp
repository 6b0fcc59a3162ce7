// `ddpctl logs`: what workers print, seen from beside the job.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/launcher/named_job.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;
using test::Child;
using test::ChildResult;
using test::NamedJob;
using test::without_stdin;

namespace {

void touch(const std::string& path) { std::ofstream(path) << "go"; }

/// Workers print, wait for the file, print again and end with their rank.
std::string waits_for(const std::string& file) {
  return "echo first of $RANK; echo up >&2; while [ ! -e " + file +
         " ]; do sleep 0.05; done; echo second of $RANK; exit $RANK";
}

}  // namespace

TEST_CASE("the last lines of workers are shown, and with --follow all to the job's end") {
  const test::TempDir folder;
  const std::string go = (folder / "go").string();
  NamedJob job(waits_for(go), {"--max-restarts=1"});
  job.await("first");
  job.await_err("up");
  const ChildResult now = job.ctl({"logs", job.id()});
  INFO(now.out + now.err);
  CHECK(now.status == 0);
  CHECK_THAT(now.out, Contains("[rank0] first of 0\n") && Contains("[rank1] first of 1\n") &&
                          Contains("[rank1] up\n") && !Contains("second"));
  const ChildResult one = job.ctl({"logs", job.id(), "--rank=1"});
  CHECK_THAT(one.out, Contains("[rank1] first of 1\n") && !Contains("rank0"));
  const ChildResult absent = job.ctl({"logs", job.id(), "--rank=2"});
  CHECK(absent.status == 1);
  CHECK_THAT(absent.err, Contains("no worker of this node has the rank 2"));

  Child follower(NamedJob::command({"logs", job.id(), "-f"}), without_stdin());
  Child killed(NamedJob::command({"logs", job.id(), "-f"}), without_stdin());
  REQUIRE(follower.wait_for_output("[rank1] first"));
  REQUIRE(killed.wait_for_output("[rank1] first"));
  killed.signal(SIGKILL);
  killed.wait();
  touch(go);
  const ChildResult all = follower.wait();
  INFO(all.out + all.err);
  CHECK(all.status == 0);
  CHECK_THAT(all.out, Contains("[rank0] first of 0\n") && Contains("[rank1] second of 1\n"));
  // Those of the second round, too.
  CHECK(all.out.find("[rank1] first of 1") != all.out.rfind("[rank1] first of 1"));
  job.end(1);
}

TEST_CASE("lines that ddprun does not show, or that workers write to files, are shown as well") {
  const test::TempDir folder;
  const std::string go = (folder / "go").string();
  NamedJob files(waits_for(go), {"--redirects=3", "--log-dir=" + folder.path().string()});
  std::string out;
  REQUIRE(test::eventually([&] {
    out = files.ctl({"logs", files.id()}).out;
    return out.find("[rank1] up") != std::string::npos;
  }));
  CHECK_THAT(out, Contains("[rank1] first of 1\n"));
  Child follower(NamedJob::command({"logs", files.id(), "-f", "--rank=1"}), without_stdin());
  REQUIRE(follower.wait_for_output("[rank1] first"));
  touch(go);
  const std::string all = follower.wait().out;
  CHECK_THAT(all, Contains("[rank1] first of 1\n") && Contains("[rank1] second of 1\n") &&
                      !Contains("rank0"));
  files.end(1);
  std::filesystem::remove(go);

  NamedJob hidden(waits_for(go), {"--local-ranks-filter=0"});
  REQUIRE(hidden.job().wait_for_output("[rank0] first"));
  REQUIRE(test::eventually([&] {
    return hidden.ctl({"logs", hidden.id()}).out.find("[rank1] up\n") != std::string::npos;
  }));
  CHECK_THAT(hidden.ctl({"logs", hidden.id()}).err,
             Contains("the stdout of workers that are not shown goes nowhere"));
  hidden.ctl({"stop", hidden.id()});
  hidden.end(128 + SIGTERM);
}

TEST_CASE("where a worker has ddprun's own stdout, that is said") {
  NamedJob job(test::kRunsOn, {"--output=raw"});
  job.await("up");
  const ChildResult logs = job.ctl({"logs", job.id()});
  CHECK(logs.status == 0);
  CHECK(logs.out.empty());
  CHECK_THAT(logs.err, Contains("the workers' stdout is ddprun's own, and is not seen here"));
  job.ctl({"stop", job.id()});
  job.end(128 + SIGTERM);
}

TEST_CASE("a flood is followed as far as it can be, and the job does not wait for that") {
  const test::TempDir folder;
  const std::string go = (folder / "go").string();
  NamedJob job("echo up; while [ ! -e " + go +
                   " ]; do sleep 0.05; done; yes 'a line that comes again and again' | head -c "
                   "50000000; echo last",
               {"--output=prefix", "--log-policy=drop"});
  job.await("up");
  Child follower(NamedJob::command({"logs", job.id(), "-f"}), without_stdin());
  REQUIRE(follower.wait_for_output("[rank1] up"));
  touch(go);
  const ChildResult all = follower.wait();
  INFO(all.err);
  CHECK(all.status == 0);
  CHECK_THAT(all.err, Contains(" bytes came too fast to be shown here"));
  CHECK_THAT(all.out, Contains("last\n"));
  job.end(0);
}
