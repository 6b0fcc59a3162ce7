// A node on which round after round fails first gives its place to a spare.
#include <catch2/catch.hpp>

#include "rendezvous/membership/verdict.hpp"
#include "tests/unit/rendezvous/membership/script.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using rdzv::JobState;
using test::Script;

namespace {

proto::JobSettings stepping_back(int min, int max) {
  proto::JobSettings settings = test::nodes(min, max, 20);
  settings.failing_nodes_step_back = true;
  return settings;
}

/// Nodes that all come back after each failure.
class Failing : public Script {
 public:
  using Script::Script;

  void join(const std::string& agent) {
    proto::Join join = join_of(agent);
    join.checks_first = checks_first;
    say(agent, join);
  }
  void come_back(const std::string& agent) {
    stopped(agent);
    join(agent);
  }
  void join_all(const std::vector<std::string>& agents) {
    for (const std::string& agent : agents) join(agent);
  }
  /// A worker of this node fails; the nodes of the round come back, this one last.
  void fail_on(const std::string& agent) {
    const std::vector<std::string> all = in_round();
    fail(agent, 0, {false, 1, false});
    for (const std::string& other : all)
      if (other != agent) come_back(other);
    come_back(agent);
  }
  /// By group rank.
  [[nodiscard]] std::vector<std::string> in_round() const {
    std::map<int, std::string> ranks;
    for (const auto& [agent, messages] : inbox)
      if (const auto rank = membership.group_rank(agent)) ranks[*rank] = agent;
    std::vector<std::string> names;
    for (const auto& [rank, agent] : ranks) names.push_back(agent);
    return names;
  }
  bool is_spare(const std::string& agent) { return newest<proto::Waiting>(agent).is_spare; }
  /// Those of the nodes' report, once the nodes of the round are done.
  std::vector<proto::UnsoundNode> unsound() {
    const std::vector<std::string> all = in_round();
    for (const std::string& agent : all) done(agent);
    return finished(all.front()).unsound;
  }

  bool checks_first = false;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a node on which two rounds in a row failed gives its place to a spare") {
  Failing job(stepping_back(2, 2));
  job.join_all({"a", "b", "spare"});
  job.fail_on("a");
  CHECK(job.in_round() == Names{"a", "b"});
  job.fail_on("a");
  CHECK(job.in_round() == Names{"b", "spare"});
  CHECK(job.is_spare("a"));
  CHECK(job.newest<proto::Waiting>("a").nodes == 2);
  const std::string reason =
      "gave its place to a spare: 2 rounds in a row failed on this node; the last one: rank "
      "0 on a exited with code 1 after 2.5 s";
  CHECK(job.warnings == Names{"a " + reason});
  CHECK(job.newest<proto::Remark>("a").text == "a " + reason);
  const auto unsound = job.unsound();
  REQUIRE(unsound.size() == 1);
  CHECK(unsound[0].node == "a");
  CHECK(unsound[0].reason == reason);
  CHECK(unsound[0].times == 1);
  CHECK(job.finished("a").outcome == proto::Finished::Outcome::succeeded);
}

TEST_CASE("without a spare a node that fails again and again keeps its place") {
  Failing job(stepping_back(1, 2));
  job.join_all({"a", "b"});
  for (int i = 0; i < 4; ++i) job.fail_on("a");
  CHECK(job.in_round() == Names{"a", "b"});
  CHECK(job.warnings.empty());
  SECTION("until one comes and it fails once more") {
    job.join("spare");
    CHECK(job.in_round() == Names{"a", "b"});
    job.fail_on("a");
    CHECK(job.in_round() == Names{"b", "spare"});
    CHECK_THAT(job.warnings.at(0), Catch::Matchers::Contains("5 rounds in a row"));
  }
  SECTION("until one comes while its round stops") {
    job.fail("a", 0);
    job.join("spare");
    job.come_back("a");
    job.come_back("b");
    CHECK(job.in_round() == Names{"b", "spare"});
  }
}

TEST_CASE("a row of failures ends") {
  Failing job(stepping_back(2, 3));
  job.join_all({"a", "b", "c", "spare"});
  job.fail_on("a");
  SECTION("when a round fails first on another node") { job.fail_on("b"); }
  SECTION("when a round ends because a node is lost") {
    job.lose("c");
    job.come_back("a");
    job.come_back("b");
    REQUIRE(job.in_round() == Names{"a", "b", "spare"});
    job.join("other spare");
  }
  job.fail_on("a");
  CHECK(job.in_round().front() == "a");
  CHECK(job.warnings.empty());
  job.fail_on("a");
  CHECK(job.in_round().front() == "b");
}

TEST_CASE("a node of which the worker only waited for one that hangs does not give way for it") {
  Failing job(stepping_back(2, 2));
  job.join_all({"a", "b", "spare"});
  for (int i = 0; i < 2; ++i) {
    proto::WorkerFailed failed = test::failed_in(job.round("a").number);
    failed.ran_for = failed.at = 2500ms;
    job.say("a", failed);
    proto::WorkerFailure waited = rdzv::without_evidence(failed);
    waited.exit = {false, 1, false};
    waited.evidence = {proto::EvidenceKind::exception_line, 2500ms, "timed out", "timed out"};
    waited.evidence.timed_out = true;
    job.say("a", proto::Stopped{failed.round, {waited}});
    job.join("a");
    proto::Stopped ran_on{failed.round, {}};
    ran_on.still_ran.push_back({});
    job.say("b", ran_on);
    job.join("b");
  }
  CHECK(job.in_round() == Names{"a", "spare"});
  CHECK_THAT(job.warnings.at(0),
             Catch::Matchers::StartsWith("b gave its place to a spare: 2 rounds") &&
                 Catch::Matchers::Contains("; rank 2 on b probably hangs"));
}

TEST_CASE("a node that has stepped back is the last spare") {
  Failing job(stepping_back(2, 2));
  job.join_all({"a", "b", "c"});
  job.fail_on("a");
  job.fail_on("a");
  REQUIRE(job.in_round() == Names{"b", "c"});
  SECTION("behind one that comes later") {
    job.join("d");
    job.lose("b");
    job.come_back("c");
    CHECK(job.in_round() == Names{"c", "d"});
  }
  SECTION("behind one that has stepped back before") {
    job.join("d");
    job.fail_on("c");
    job.fail_on("c");
    REQUIRE(job.in_round() == Names{"b", "d"});
    job.lose("d");
    job.come_back("b");
    CHECK(job.in_round() == Names{"b", "a"});
    CHECK(job.is_spare("c"));
  }
  SECTION("and takes a place again, with two failures ahead") {
    job.lose("b");
    job.come_back("c");
    REQUIRE(job.in_round() == Names{"c", "a"});
    job.join("d");
    job.fail_on("a");
    CHECK(job.in_round() == Names{"c", "a"});
    job.fail_on("a");
    CHECK(job.in_round() == Names{"c", "d"});
    const auto unsound = job.unsound();
    REQUIRE(unsound.size() == 1);
    CHECK(unsound[0].times == 2);
  }
}

TEST_CASE("two nodes that fail in turns change places, each after two failures") {
  Failing job(stepping_back(1, 1));
  job.join_all({"a", "b"});
  for (const char* failing : {"a", "a", "b", "b", "a", "a"}) {
    REQUIRE(job.in_round() == Names{failing});
    job.fail_on(failing);
  }
  CHECK(job.in_round() == Names{"b"});
}

TEST_CASE(
    "a spare is checked before it gets the place, which stays the failing node's if it fails") {
  Failing job(stepping_back(2, 2));
  job.checks_first = true;
  const auto answer = [&](const std::string& agent, bool passed) {
    job.say(agent, proto::Checked{job.newest<proto::Check>(agent).number, passed});
  };
  for (const char* agent : {"a", "b", "spare"}) {
    job.join(agent);
    answer(agent, true);
  }
  job.fail_on("a");
  job.fail_on("a");
  REQUIRE(job.count<proto::Check>("spare") == 2);
  CHECK(job.membership.state() == JobState::forming);
  SECTION("it passes") {
    answer("spare", true);
    CHECK(job.in_round() == Names{"b", "spare"});
    job.lose("b");
    job.come_back("spare");
    CHECK(job.count<proto::Check>("a") == 2);  // it has been a spare
  }
  SECTION("it fails") {
    answer("spare", false);
    CHECK(job.in_round() == Names{"a", "b"});
    CHECK(job.count<proto::Waiting>("a") == 0);
    REQUIRE(job.unsound().size() == 1);
    CHECK(job.finished("a").unsound[0].node == "spare");
  }
}

TEST_CASE("the place of a node that insists on its rank is no other's") {
  Failing job(stepping_back(2, 2));
  for (const int rank : {0, 1}) {
    proto::Join join = job.join_of(std::string(1, static_cast<char>('a' + rank)));
    join.requested_group_rank = rank;
    join.insists_on_rank = true;
    job.say(join.node_name, join);
  }
  job.join("spare");
  for (int i = 0; i < 3; ++i) {
    const auto number = job.round("a").number;
    job.fail("a", 0);
    for (const int rank : {0, 1}) {
      proto::Join join = job.join_of(std::string(1, static_cast<char>('a' + rank)));
      join.requested_group_rank = rank;
      join.insists_on_rank = true;
      job.say(join.node_name, proto::Stopped{number, {}});
      job.say(join.node_name, join);
    }
  }
  CHECK(job.round("a").number == 3);
  CHECK(job.in_round() == Names{"a", "b"});
}

TEST_CASE("a failing node that comes back too late has not stepped back") {
  Failing job(stepping_back(1, 2));
  job.join_all({"a", "b"});
  job.fail_on("a");
  job.fail("a", 0);
  job.come_back("b");
  job.stopped("a");
  job.pass(30s);
  REQUIRE(job.in_round() == Names{"b"});
  job.join("a");
  job.pass(5s);
  job.come_back("b");
  CHECK(job.in_round() == Names{"b", "a"});
  CHECK(job.warnings.empty());
}

TEST_CASE("in a job that an older agent began every node keeps its place") {
  Failing job(test::nodes(2, 2, 20));
  job.join_all({"a", "b", "spare"});
  for (int i = 0; i < 4; ++i) job.fail_on("a");
  CHECK(job.in_round() == Names{"a", "b"});
}

TEST_CASE("a job that goes on from a snapshot knows which nodes have failed and stepped back") {
  Failing job(stepping_back(2, 2));
  job.join_all({"a", "b", "c", "d"});
  job.fail_on("a");
  job.fail_on("a");
  job.fail_on("b");
  REQUIRE(job.in_round() == Names{"b", "c"});
  REQUIRE(job.membership.is_at_rest());
  rdzv::Membership other(job.membership.snapshot(), {});
  for (const char* agent : {"a", "b", "c", "d"}) other.restore(agent, *job.membership.node(agent));
  const auto say = [&](const std::string& agent, const proto::AgentMessage& message) {
    static_cast<void>(other.on(rdzv::FromAgent{agent, message}, job.now));
  };
  const auto number = other.next_round() - 1;
  say("b", test::failed_in(number));
  for (const char* agent : {"b", "c"}) {
    say(agent, proto::Stopped{number, {}});
    say(agent, job.join_of(agent));
  }
  CHECK(other.group_rank("c") == 0);
  CHECK(other.group_rank("d") == 1);  // not a, which stepped back before
  CHECK_FALSE(other.group_rank("b").has_value());
}
