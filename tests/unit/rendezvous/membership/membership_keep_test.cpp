// Which workers the core lets go on in the next round, and whose state the others get.
#include <catch2/catch.hpp>

#include "tests/unit/rendezvous/membership/script.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using proto::KeptWorker;
using test::nodes;
using test::Script;

namespace {

/// Two nodes of two workers run round 0.
class KeepScript : public Script {
 public:
  explicit KeepScript(proto::JobSettings job = nodes(2, 2, 9)) : Script(std::move(job)) {
    join("a");
    join("b");
  }
  void come_back_with(const std::string& agent, std::vector<KeptWorker> kept) {
    stopped(agent);
    proto::Join again = join_of(agent);
    again.kept = std::move(kept);
    say(agent, again);
  }
};

}  // namespace

TEST_CASE("a round that fails is stopped so that workers can be kept, unless it is the last one") {
  const bool budget_left = GENERATE(true, false);
  KeepScript job(nodes(2, 2, budget_left ? 1 : 0));
  job.fail("a", 0);
  CHECK(job.stop("a").keep);  // which node failed the job is not known yet
  Script alone(nodes(1, 1, budget_left ? 1 : 0));
  alone.join("a");
  alone.fail("a", 0);
  CHECK(alone.stop("a").keep == budget_left);
}

TEST_CASE("workers go on, and the others get the newest of their states") {
  KeepScript job;
  job.fail("a", 0);
  job.come_back_with("a", {{1, 0, 40}});
  job.come_back_with("b", {{0, 0, 41}, {1, 0, 41}});
  for (const auto* agent : {"a", "b"}) {
    CHECK(job.round(agent).kept_workers == 3);
    CHECK(job.round(agent).source_rank == 2);  // of the two with the newest, the lowest
    CHECK(job.round(agent).source_step == 41);
  }
  CHECK(job.round("a").keep == std::vector{1});
  CHECK(job.round("b").keep == std::vector{0, 1});
}

TEST_CASE("where no worker has a state all are started") {
  KeepScript job;
  job.fail("a", 0);
  job.come_back_with("a", {{1, 0, std::nullopt}});
  job.come_back_with("b", {{0, 0, std::nullopt}});
  CHECK(job.round("a").kept_workers == 0);
  CHECK(job.round("a").keep.empty());
  CHECK(job.round("b").keep.empty());
}

TEST_CASE("a worker without a state goes on, too, where another one has it") {
  KeepScript job;
  job.fail("a", 0);
  job.come_back_with("a", {{1, 0, std::nullopt}});
  job.come_back_with("b", {{0, 0, 0}});
  CHECK(job.round("a").keep == std::vector{1});
  CHECK(job.round("a").source_rank == 2);
  CHECK(job.round("a").source_step == 0);
}

TEST_CASE("workers of an older round, and those of a node that had no part in it, do not go on") {
  KeepScript job(nodes(1, 2, 9));
  job.fail("a", 0);
  job.come_back_with("a", {{1, 0, 40}});
  job.come_back_with("b", {{0, 0, 40}});
  REQUIRE(job.round("a").number == 1);
  SECTION("an older round") {
    job.fail("a", 0);
    job.come_back_with("a", {{1, 1, 50}});
    job.come_back_with("b", {{0, 0, 60}});  // it has missed round 1
    CHECK(job.round("b").keep.empty());
    CHECK(job.round("a").source_step == 50);
  }
  SECTION("another session") {
    job.lose("b");
    job.come_back_with("a", {{1, 1, 50}});
    job.pass(30s);
    proto::Join join = job.join_of("b/2");
    join.kept = {{0, 2, 60}};
    job.say("b/2", join);
    job.pass(5s);
    job.come_back_with("a", {{1, 2, 55}});
    CHECK(job.round("b/2").number == 3);
    CHECK(job.round("b/2").keep.empty());
    CHECK(job.round("b/2").source_step == 55);
  }
}

TEST_CASE("no worker goes on beside a node of which the workers would not learn of it") {
  KeepScript job;
  job.fail("a", 0);
  job.come_back_with("a", {{1, 0, 40}});
  job.stopped("b");
  proto::Join older = job.join_of("b");
  older.knows_kept = false;
  job.say("b", older);
  CHECK(job.round("a").keep.empty());
  CHECK(job.round("a").kept_workers == 0);
}

TEST_CASE("a list of workers that no node would give is not followed") {
  KeepScript job;
  job.fail("a", 0);
  job.come_back_with("a", {{1, 0, 40}, {1, 0, 99}, {0, 0, 99}});
  job.come_back_with("b", {{7, 0, 99}});
  CHECK(job.round("a").keep == std::vector{1});
  CHECK(job.round("b").keep.empty());
  CHECK(job.round("a").source_step == 40);
}

TEST_CASE("the newest list of a node counts") {
  KeepScript job;
  job.fail("a", 0);
  job.come_back_with("a", {{0, 0, 50}, {1, 0, 40}});
  proto::Join again = job.join_of("a");
  again.kept = {{1, 0, 40}};  // the other one has ended
  job.say("a", again);
  job.come_back_with("b", {});
  CHECK(job.round("a").keep == std::vector{1});
  CHECK(job.round("a").source_rank == 1);
}

TEST_CASE("ranks move up where a node is lost, and the state's source with them") {
  KeepScript job(nodes(1, 2));
  job.lose("a");
  job.come_back_with("b", {{0, 0, 40}, {1, 0, 40}});
  CHECK(job.round("b").world_size == 2);
  CHECK(job.round("b").keep == std::vector{0, 1});
  CHECK(job.round("b").source_rank == 0);
}
