// The membership core when nodes join: their options, their ranks, and what they hear while they
// wait.
#include <catch2/catch.hpp>

#include "rendezvous/membership/job_facts.hpp"
#include "tests/unit/rendezvous/membership/script.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using proto::Finished;
using rdzv::JobState;
using test::nodes;
using test::Script;

TEST_CASE("a node with other options than the job is refused, or told which of them do not count") {
  Script job(nodes(2, 2));
  job.join("a");
  proto::Join join = job.join_of("b");
  SECTION("another number of nodes") {
    join.settings.max_nodes = 3;
    job.say("b", join);
    CHECK(job.finished("b").reason == "this job has --nnodes=2, b was started with --nnodes=2:3");
    CHECK(job.membership.state() == JobState::forming);
    CHECK(job.newest<proto::Remark>("a").text ==
          "b was refused: this job has --nnodes=2, b was started with --nnodes=2:3");
    job.say("b", join);
    CHECK(job.count<proto::Remark>("a") == 1);  // it is no news
  }
  SECTION("other restarts") {
    join.settings.restart.max_restarts = 7;
    join.settings.grow_delay.reset();
    job.say("b", join);
    CHECK(job.membership.state() == JobState::running);
    CHECK(job.warnings ==
          std::vector<std::string>{"b: this job has --max-restarts=0, not --max-restarts=7",
                                   "b: this job has --grow-delay=5, not --grow-delay=never"});
    CHECK(job.count<proto::Remark>("b") == 2);
    CHECK(job.newest<proto::Remark>("b").text ==
          "this job has --grow-delay=5, not --grow-delay=never");
    CHECK(job.count<proto::Remark>("a") == 0);
  }
}

TEST_CASE("a node that may have to serve the workers' store must name its place") {
  Script job(nodes(2, 2));
  job.join("a");
  proto::Join join = job.join_of("b");
  SECTION("no address") { join.store_addr.clear(); }
  SECTION("no port") { join.store_port = 0; }
  SECTION("one that insists on node rank 0") {
    join.store_port = 0;
    join.insists_on_rank = true;
    join.requested_group_rank = 0;
  }
  job.say("b", join);
  CHECK(job.finished("b").reason ==
        "b may have to serve the workers' store, and names no address and port for it");
  CHECK(job.membership.state() == JobState::forming);
}

TEST_CASE("a node that can have no part in the workers' store need not name its place") {
  Script job(nodes(2, 2));
  proto::Join join = job.join_of("b");
  join.insists_on_rank = true;
  join.requested_group_rank = 1;
  join.store_addr.clear();
  join.store_port = 0;
  job.say("b", join);
  job.join("a");
  CHECK(job.membership.state() == JobState::running);
}

TEST_CASE("a node that may open too few files for the workers' store is told so itself") {
  Script job(nodes(2, 2));
  proto::Join join = job.join_of("a");
  join.store_clients_max = 3;
  job.say("a", join);
  job.join("b");
  const std::string line =
      "a serves the workers' store and may open too few files for 4 workers: raise its limit "
      "(ulimit -n)";
  CHECK(job.warnings == std::vector<std::string>{line});
  CHECK(job.newest<proto::Remark>("a").text == line);
  CHECK(job.count<proto::Remark>("b") == 0);
}

TEST_CASE("every option of a job that differs on a node is named with both values") {
  proto::JobSettings given = nodes(2, 2);
  CHECK(rdzv::differences(nodes(2, 2), given).empty());
  given.restart = {.max_restarts = 1,
                   .window = 90s,
                   .back_off = 2500ms,
                   .minimum_uptime = 7s,
                   .no_restart_codes = {3, 4}};
  given.max_node_changes = 2;
  given.last_call = 1s;
  given.join_timeout = 60s;
  given.grow_delay = 8s;
  std::string all;
  for (const std::string& line : rdzv::differences(nodes(2, 2), given)) all += line + "\n";
  for (const char* part :
       {"not --max-restarts=1\n", "this job has no --restart-window, not --restart-window=90\n",
        "not --restart-delay=2.5\n", "not --min-uptime=7\n",
        "no --no-restart-on, not --no-restart-on=3,4\n",
        "this job has no --max-node-changes, not --max-node-changes=2\n",
        "not --rdzv-conf=last_call_timeout=1\n",
        "this job has --rdzv-conf=join_timeout=600, not --rdzv-conf=join_timeout=60\n",
        "this job has --grow-delay=5, not --grow-delay=8\n"})
    CHECK_THAT(all, Catch::Matchers::Contains(part));
}

TEST_CASE("a node rank that a node insists on is that rank or none") {
  Script job(nodes(2, 2));
  const auto insist = [&](const std::string& agent, int rank) {
    proto::Join join = job.join_of(agent);
    join.requested_group_rank = rank;
    join.insists_on_rank = true;
    job.say(agent, join);
  };
  insist("a", 1);
  SECTION("given twice") {
    insist("b", 1);
    CHECK(job.finished("b").reason == "--node-rank=1 is given twice, on a and on b");
  }
  SECTION("out of range") {
    insist("b", 2);
    CHECK(job.finished("b").reason == "--node-rank=2 of b: this job has the node ranks 0 to 1");
  }
  SECTION("after the other has left") {
    insist("b", 0);
    CHECK(job.round("a").group_rank == 1);
    job.lose("a");
    job.come_back("b");
    insist("c", 1);
    CHECK(job.round("c").group_rank == 1);
    CHECK(job.round("b").group_rank == 0);
    return;
  }
  CHECK(job.membership.state() == JobState::forming);
  insist("b", 0);
  CHECK(job.round("b").group_rank == 0);
}

TEST_CASE("a node rank of a node with workers is waited for, and its node is named") {
  Script job(nodes(2, 2));
  const auto insist = [&](const std::string& agent, int rank) {
    proto::Join join = job.join_of(agent);
    join.requested_group_rank = rank;
    join.insists_on_rank = true;
    job.say(agent, join);
  };
  insist("a", 0);
  insist("b", 1);
  insist("c", 1);  // it may be b's machine, where b was cut off
  CHECK(job.newest<proto::Waiting>("c").is_spare);
  CHECK(job.newest<proto::Waiting>("c").reason == "--node-rank=1 is taken by b");
  CHECK(job.count<Finished>("c") == 0);
  job.lose("b");
  job.come_back("a");
  CHECK(job.round("c").group_rank == 1);
}

TEST_CASE("agents of one node name are told apart by their own names") {
  Script job(nodes(3, 3));
  const auto come = [&](const std::string& agent, const std::string& node, int rank, bool insists) {
    proto::Join join = job.join_of(agent);
    join.node_name = node;
    join.requested_group_rank = rank;
    join.insists_on_rank = insists;
    job.say(agent, join);
  };
  come("vm-7-a", "vm", 1, true);
  come("vm-8-b", "vm", 1, true);
  CHECK(job.finished("vm-8-b").reason == "--node-rank=1 is given twice, on vm-7-a and on vm-8-b");
  job.pass(2s);
  CHECK(job.newest<proto::Waiting>("vm-7-a").joined == std::vector<std::string>{"vm"});
  come("vm-9-c", "vm", 2, false);
  come("box-9-c", "box", 2, false);
  CHECK(job.newest<proto::Remark>("box-9-c").text ==
        "--node-rank=2 is given on vm-9-c and on box: one of them gets it");
  job.say("vm-7-a", proto::Leave{15, "", false});
  CHECK(job.stop("box-9-c").reason == "vm-7-a was stopped by SIGTERM");
  job.stopped("vm-7-a");
  for (const char* agent : {"vm-9-c", "box-9-c"}) {
    job.stopped(agent);
    come(agent, *agent == 'v' ? "vm" : "box", 2, false);
  }
  job.pass(2s);
  CHECK(job.newest<proto::Waiting>("box-9-c").joined == std::vector<std::string>{"box", "vm"});
}

TEST_CASE("a node that joins again with another rank leaves the first one free") {
  Script job(nodes(2, 2));
  for (const int rank : {1, 0}) {
    proto::Join join = job.join_of("a");
    join.requested_group_rank = rank;
    join.insists_on_rank = true;
    job.say("a", join);
  }
  job.lose("a");
  for (const char* agent : {"b", "c"}) {
    proto::Join join = job.join_of(agent);
    join.requested_group_rank = *agent == 'b' ? 1 : 0;
    join.insists_on_rank = true;
    job.say(agent, join);
  }
  CHECK(job.round("b").group_rank == 1);
  CHECK(job.round("c").group_rank == 0);
}

TEST_CASE("a node rank that is only wished for and given twice goes to the first") {
  Script job(nodes(3, 3));
  for (const char* agent : {"c", "b", "a"}) {
    proto::Join join = job.join_of(agent);
    if (std::string(agent) != "b") join.requested_group_rank = 0;
    job.say(agent, join);
  }
  CHECK(job.round("a").group_rank == 0);
  CHECK(job.round("b").group_rank == 2);
  CHECK(job.round("c").group_rank == 1);
}

TEST_CASE("those that wait are told how many nodes are there and which are missing") {
  Script job(nodes(2, 3, 1));
  job.join("a");
  job.pass(1s);
  CHECK(job.count<proto::Waiting>("a") == 0);
  job.pass(1s);
  CHECK(job.newest<proto::Waiting>("a").nodes == 1);
  CHECK(job.newest<proto::Waiting>("a").left == 598s);
  CHECK(job.newest<proto::Waiting>("a").missing.empty());
  job.pass(10s);
  CHECK(job.count<proto::Waiting>("a") == 1);  // nothing is new
  job.join("b");
  job.pass(1s);
  CHECK(job.newest<proto::Waiting>("b").nodes == 2);
  CHECK(job.newest<proto::Waiting>("b").left == 29s);
  CHECK_FALSE(job.newest<proto::Waiting>("b").for_past_workers);
  CHECK(job.newest<proto::Waiting>("b").joined == std::vector<std::string>{"a", "b"});
  job.join("c");
  job.fail("a", 0);
  job.stopped("a");
  job.come_back("b");
  job.come_back("c");
  job.pass(2s);
  CHECK(job.newest<proto::Waiting>("b").missing == std::vector<std::string>{"a"});
}

TEST_CASE("node ranks that no node has yet are named") {
  Script job(nodes(12, 12));
  proto::Join join = job.join_of("a");
  join.requested_group_rank = 3;
  join.insists_on_rank = true;
  job.say("a", join);
  job.pass(2s);
  const auto& missing = job.newest<proto::Waiting>("a").missing;
  REQUIRE(missing.size() == proto::kWaitingNamesMax);
  CHECK(missing[2] == "node rank 2");
  CHECK(missing[3] == "node rank 4");
}

TEST_CASE("a rank that two nodes only wish for is told to both") {
  Script job(nodes(3, 3));
  const auto wish = [&](const char* agent, std::optional<int> rank) {
    proto::Join join = job.join_of(agent);
    join.requested_group_rank = rank;
    job.say(agent, join);
  };
  wish("a", 1);
  CHECK(job.count<proto::Remark>("a") == 0);
  SECTION("while both are there") {
    wish("b", 1);
    for (const char* agent : {"a", "b"})
      CHECK(job.newest<proto::Remark>(agent).text ==
            "--node-rank=1 is given on a and on b: one of them gets it");
    wish("c", 0);
    CHECK(job.count<proto::Remark>("c") == 0);
    CHECK(job.round("c").group_rank == 0);
    CHECK(job.round("a").group_rank == 1);
    CHECK(job.round("b").group_rank == 2);
  }
  SECTION("but not if the other one is gone") {
    job.lose("a");
    wish("b", 1);
    CHECK(job.count<proto::Remark>("b") == 0);
  }
}

TEST_CASE("a rendezvous without memory goes on from what the nodes remember") {
  Script job(nodes(2, 2, 5));
  for (const char* agent : {"a", "b"}) {
    proto::Join join = job.join_of(agent);
    join.was_in = proto::PastRound{7, 41, *agent == 'a' ? 2 : 3};
    job.say(agent, join);
  }
  CHECK(job.round("a").number == 42);
  CHECK(job.round("a").restart_count == 3);
}

TEST_CASE("an agent that may have missed a message is told the same again") {
  Script job(nodes(1, 2, 1));
  CHECK_FALSE(job.membership.current("a").has_value());
  job.join("a");
  job.join("b");
  CHECK(std::get<proto::Round>(*job.membership.current("b")).first_rank == 2);
  CHECK_FALSE(job.membership.current("c").has_value());
  job.say("a", proto::Leave{2, "", true});
  CHECK(std::get<proto::Stop>(*job.membership.current("b")).final);
  job.stopped("a");
  job.stopped("b");
  CHECK(std::get<Finished>(*job.membership.current("b")).signal == 2);
}

TEST_CASE("a last call that was announced is waited for beyond the join timeout") {
  proto::JobSettings settings = nodes(1, 2);
  settings.join_timeout = 8s;
  settings.last_call = 2s;
  Script job(settings);
  job.pass(7s);
  job.join("a");
  job.pass(1999ms);
  CHECK(job.membership.state() == JobState::forming);
  job.pass(1ms);
  CHECK(job.membership.state() == JobState::running);
}

TEST_CASE("a round that waits for the leases of an earlier life has no join timeout until then") {
  proto::JobSettings settings = nodes(1, 2);
  settings.join_timeout = 8s;
  settings.last_call = 2s;
  Script job(settings);
  job.membership.hold_incomplete_until(job.now + 16s);
  job.join("a");
  job.pass(6s);
  CHECK(job.newest<proto::Waiting>("a").for_past_workers);
  CHECK(job.newest<proto::Waiting>("a").left == 10s);
  job.pass(10s - 1ms);
  CHECK(job.membership.state() == JobState::forming);
  job.pass(1ms);
  CHECK(job.membership.state() == JobState::running);

  Script held(settings);
  held.membership.hold_until(held.now + 16s);
  held.join("a");
  held.pass(6s);
  CHECK(held.newest<proto::Waiting>("a").for_past_workers);
  held.pass(10s);
  CHECK(held.membership.state() == JobState::forming);
  held.pass(2s);
  CHECK(held.membership.state() == JobState::running);

  settings.min_nodes = 2;
  Script too_few(settings);
  too_few.membership.hold_until(too_few.now + 16s);
  too_few.join("a");
  too_few.pass(6s);
  CHECK_FALSE(too_few.newest<proto::Waiting>("a").for_past_workers);

  Script empty(settings);
  empty.membership.hold_until(empty.now + 16s);
  empty.pass(8s);
  CHECK(empty.membership.state() == JobState::finished);
}
