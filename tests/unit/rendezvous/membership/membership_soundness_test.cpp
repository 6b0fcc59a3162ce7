// Nodes that are checked before they take part in a round.
#include <catch2/catch.hpp>

#include "tests/unit/rendezvous/membership/script.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using proto::Finished;
using rdzv::JobState;
using test::nodes;
using test::Script;

namespace {

/// Nodes that are checked first, each with its own agent.
class Checked : public Script {
 public:
  using Script::Script;

  void join_unchecked(const std::string& agent) {
    proto::Join join = join_of(agent);
    join.checks_first = true;
    say(agent, join);
  }
  void answer(const std::string& agent, bool passed, const std::string& text = "",
              bool hosts = false) {
    say(agent, proto::Checked{newest<proto::Check>(agent).number, passed, text, hosts});
  }
  void pass_check(const std::string& agent) { answer(agent, true); }
  void join_sound(const std::string& agent) {
    join_unchecked(agent);
    pass_check(agent);
  }
  int checks(const std::string& agent) { return count<proto::Check>(agent); }
  int rounds(const std::string& agent) { return count<proto::Round>(agent); }
};

void come_back(Checked& job, const std::string& agent) {
  job.stopped(agent);
  job.join_unchecked(agent);
}

}  // namespace

TEST_CASE("a node that asks for a check gets a rank when it has passed") {
  Checked job(nodes(2, 2));
  job.join_unchecked("a");
  job.join_unchecked("b");
  CHECK(job.checks("a") == 1);
  job.pass_check("b");
  CHECK(job.membership.state() == JobState::forming);
  job.pass_check("a");
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round("a").group_rank == 0);
  CHECK(job.round("b").group_rank == 1);
}

TEST_CASE("a job of one node checks it, too") {
  Checked job(nodes(1, 1));
  job.join_unchecked("local");
  CHECK(job.rounds("local") == 0);
  job.answer("local", false, "exited with code 3: no GPU");
  CHECK(job.rounds("local") == 0);
  CHECK(job.finished("local").outcome == Finished::Outcome::failed);
  CHECK(job.finished("local").reason ==
        "local failed its check (--preflight): exited with code 3: no GPU");
}

TEST_CASE("a node that fails its check never gets a rank, and the job goes on with a spare") {
  Checked job(nodes(2, 2));
  job.join_sound("a");
  job.join_unchecked("b");
  job.answer("b", false, "killed by SIGKILL (signal 9)");
  const std::string line = "b failed its check (--preflight): killed by SIGKILL (signal 9)";
  CHECK(job.finished("b").reason == line);
  CHECK(job.newest<proto::Remark>("a").text == line);
  CHECK(job.warnings == std::vector<std::string>{line});
  CHECK(job.membership.nodes() == 1);
  job.join_sound("c");
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.rounds("b") == 0);
  job.done("a");
  job.done("c");
  REQUIRE(job.finished("a").unsound.size() == 1);
  CHECK(job.finished("a").unsound[0].node == "b");
  CHECK(job.finished("a").unsound[0].times == 1);
  CHECK(job.finished("a").unsound[0].reason ==
        "failed its check (--preflight): killed by SIGKILL (signal 9)");
  CHECK(job.finished("c").unsound.empty());  // the report is at a
}

TEST_CASE("a node that is started again and again has one entry, with its newest reason") {
  Checked job(nodes(1, 2));
  job.join_sound("a");
  for (int i = 0; i < 200; ++i) {
    proto::Join join = job.join_of("b");
    join.checks_first = true;
    const std::string agent = "b" + std::to_string(i);
    job.say(agent, join);
    job.answer(agent, false, "code " + std::to_string(i));
    join.node_name = "node" + std::to_string(i);
    job.say(agent, join);
    job.answer(agent, false);
  }
  job.pass(30s);
  job.done("a");
  const auto& unsound = job.finished("a").unsound;
  REQUIRE(unsound.size() == 64);
  CHECK(unsound[62].node == "b");
  CHECK(unsound[62].times == 200);
  CHECK(unsound[62].reason == "failed its check (--preflight): code 199");
  CHECK(unsound[63].reason == "failed its check (--preflight)");
}

TEST_CASE("nodes of the last round come back without another check") {
  Checked job(nodes(2, 2, 1));
  job.join_sound("a");
  job.join_sound("b");
  job.fail("a", 0);
  come_back(job, "a");
  come_back(job, "b");
  CHECK(job.rounds("a") == 2);
  CHECK(job.checks("a") == 1);
}

TEST_CASE("a node that comes back when a round has formed without it is checked again") {
  Checked job(nodes(1, 2, 1));
  job.join_sound("a");
  job.join_sound("b");
  job.fail("a", 0);
  come_back(job, "a");
  job.stopped("b");
  job.pass(30s);
  REQUIRE(job.round("a").group_world_size == 1);
  job.join_unchecked("b");
  CHECK(job.checks("b") == 2);
}

TEST_CASE("a spare is checked again before it gets a rank, and the others wait for that") {
  const int min = GENERATE(1, 2);
  Checked job(nodes(min, 2));
  job.join_sound("a");
  job.join_sound("b");
  job.join_sound("spare");
  CHECK(job.newest<proto::Waiting>("spare").is_spare);
  CHECK(job.checks("spare") == 1);
  job.lose("a");
  come_back(job, "b");
  CHECK(job.checks("spare") == 2);
  CHECK(job.membership.state() == JobState::forming);
  job.pass(1min);  // the last call is not for it
  CHECK(job.membership.state() == JobState::forming);
  job.pass(1h);  // nor the join timeout
  CHECK(job.membership.state() == JobState::forming);
  job.pass_check("spare");
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round("b").group_world_size == 2);
  CHECK(job.round("spare").group_rank == 1);
}

TEST_CASE("a spare that fails its check gives way to the next one") {
  Checked job(nodes(2, 2));
  job.join_sound("a");
  job.join_sound("b");
  job.join_sound("s1");
  job.join_sound("s2");
  job.lose("a");
  come_back(job, "b");
  CHECK(job.checks("s1") == 2);
  CHECK(job.checks("s2") == 1);
  job.answer("s1", false, "exited with code 1");
  CHECK(job.rounds("s1") == 0);
  CHECK(job.checks("s2") == 2);
  job.pass_check("s2");
  CHECK(job.round("s2").group_rank == 1);
}

TEST_CASE("without the spare that fails its check the round forms at once, if there are enough") {
  Checked job(nodes(1, 2));
  job.join_sound("a");
  job.join_sound("b");
  job.join_sound("spare");
  job.lose("a");
  come_back(job, "b");
  SECTION("it fails") { job.answer("spare", false); }
  SECTION("it leaves") { job.say("spare", proto::Leave{15, ""}); }
  SECTION("it is lost") { job.lose("spare"); }
  REQUIRE(job.membership.state() == JobState::running);
  CHECK(job.round("b").group_world_size == 1);
}

TEST_CASE("a newcomer of a round that can grow is checked once") {
  proto::JobSettings settings = nodes(1, 2);
  Checked job(settings);
  job.join_sound("a");
  job.pass(30s);
  REQUIRE(job.membership.state() == JobState::running);
  job.join_unchecked("b");
  CHECK_FALSE(job.membership.deadline().has_value());  // the round does not end for it yet
  job.pass_check("b");
  job.pass(0s);
  REQUIRE(job.membership.state() == JobState::stopping);
  come_back(job, "a");
  CHECK(job.round("b").group_world_size == 2);
  CHECK(job.checks("b") == 1);
}

TEST_CASE("a newcomer that fails its check does not disturb the round") {
  Checked job(nodes(1, 2));
  job.join_sound("a");
  job.pass(30s);
  job.join_unchecked("b");
  job.answer("b", false);
  CHECK(job.membership.state() == JobState::running);
  CHECK(job.count<Finished>("b") == 1);
  job.fail("a", 0);
  CHECK(job.membership.state() == JobState::stopping);
  job.join_unchecked("c");
  job.answer("c", false);
  CHECK(job.count<Finished>("c") == 1);
  job.stopped("a");
  CHECK(job.finished("a").unsound.size() == 2);
}

TEST_CASE("the join timeout ends no job while a check runs, and its reason names failed checks") {
  Checked job(nodes(2, 2));
  job.join_sound("a");
  job.join_unchecked("b");
  job.pass(20min);
  CHECK(job.membership.state() == JobState::forming);
  job.answer("b", false, "exited with code 1");
  job.pass(0s);
  REQUIRE(job.membership.state() == JobState::finished);
  CHECK(job.finished("a").reason ==
        "no round formed within the join timeout of 600 s: 1 of at least 2 nodes joined; b failed "
        "its check (--preflight): exited with code 1");
}

TEST_CASE("those that wait are told of which nodes the check runs") {
  Checked job(nodes(2, 2));
  job.join_sound("a");
  job.join_unchecked("b");
  job.pass(3s);
  const auto& waiting = job.newest<proto::Waiting>("a");
  CHECK(waiting.joined == std::vector<std::string>{"a"});
  CHECK(waiting.checked == std::vector<std::string>{"b"});
  CHECK(waiting.left >= 0s);
}

TEST_CASE("an answer that is not waited for changes nothing") {
  Checked job(nodes(2, 2));
  job.say("stranger", proto::Checked{1, true});
  job.join_unchecked("a");
  job.join_unchecked("b");
  job.say("a", proto::Checked{job.newest<proto::Check>("b").number, true});
  job.pass_check("b");
  CHECK(job.membership.state() == JobState::forming);
  job.pass_check("a");
  job.pass_check("a");
  CHECK(job.rounds("a") == 1);
}

TEST_CASE("a repeated join asks for another check, and only that one's answer counts") {
  Checked job(nodes(1, 1));
  job.join_unchecked("a");
  const auto first = job.newest<proto::Check>("a").number;
  job.join_unchecked("a");
  job.say("a", proto::Checked{first, true});
  CHECK(job.rounds("a") == 0);
  job.pass_check("a");
  CHECK(job.rounds("a") == 1);
}

TEST_CASE("an agent that was cut off during its check is asked again") {
  Checked job(nodes(1, 1));
  job.join_unchecked("a");
  const auto current = job.membership.current("a");
  REQUIRE(current.has_value());
  CHECK(std::get<proto::Check>(*current).number == job.newest<proto::Check>("a").number);
}

TEST_CASE("the check of the node that has the rendezvous ends the job when it fails") {
  Checked job(nodes(1, 2, 1));
  const std::string reason =
      "host failed its check (--preflight): exited with code 1; the rendezvous runs there, and "
      "ends with it";
  SECTION("before the first round") {
    job.join_sound("b");
    job.join_unchecked("host");
    job.answer("host", false, "exited with code 1", true);
    CHECK(job.finished("b").reason == reason);
  }
  SECTION("while a round runs") {
    job.join_sound("b");
    job.pass(30s);
    job.join_unchecked("host");
    job.answer("host", false, "exited with code 1", true);
    CHECK(job.stop("b").reason == reason);
    CHECK(job.stop("b").final);
    CHECK(job.count<Finished>("host") == 0);  // the rendezvous is still needed
    job.stopped("b");
    CHECK(job.finished("b").reason == reason);
  }
  SECTION("while one stops") {
    job.join_sound("b");
    job.pass(30s);
    job.fail("b", 0);
    job.join_unchecked("host");
    job.answer("host", false, "exited with code 1", true);
    job.stopped("b");
    CHECK(job.finished("b").reason == reason);
  }
  CHECK(job.finished("host").reason == reason);
}

TEST_CASE("a rank that is insisted on is free again after a failed check") {
  Checked job(nodes(2, 2));
  const auto join = [&](const std::string& agent, int rank) {
    proto::Join wish = job.join_of(agent);
    wish.checks_first = true;
    wish.requested_group_rank = rank;
    wish.insists_on_rank = true;
    job.say(agent, wish);
  };
  join("a", 0);
  join("twin", 0);
  CHECK(job.finished("twin").reason == "--node-rank=0 is given twice, on a and on twin");
  job.answer("a", false);
  join("c", 0);
  CHECK(job.checks("c") == 1);
}
