// The report of a job of several nodes.
#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "launcher/report/report_json.hpp"
#include "tests/unit/launcher/report/failed_job.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using test::check_report;
using test::failed;
using test::has;
using test::said;
using Ending = proto::Finished::Outcome;

TEST_CASE("a lost node is reported as the culprit") {
  agent::AgentResult result;
  result.finished.outcome = Ending::failed;
  result.finished.reason = "node1 was lost";
  result.finished.no_restart = "1 of 1 changes of nodes used (--max-node-changes)";
  result.finished.lost_node = proto::LostNode{"node1", 8, 8, proto::LossSign::silent, 17s, 0};
  check_report(result, "one");
  result.finished.lost_node->more = 2;
  check_report(result, "three");
  const auto json = nlohmann::json::parse(launcher::report_json(result, 69, {}));
  CHECK(json["culprit"].is_null());
  CHECK(json["lost_node"]["evidence"] == "node_lost");
  CHECK(json["lost_node"]["host"] == "node1");
  CHECK(json["lost_node"]["ranks"] == nlohmann::json({8, 15}));
  CHECK(json["lost_node"]["sign"] == "silent");
}

TEST_CASE(
    "the silence of a lost node counts from the start of a new rendezvous, and the report says "
    "so") {
  agent::AgentResult result;
  result.finished.outcome = Ending::failed;
  result.finished.lost_node = proto::LostNode{"node1", 8, 8, proto::LossSign::silent, 17s, 0, true};
  check_report(result);
  const auto json = nlohmann::json::parse(launcher::report_json(result, 69, {}));
  CHECK(json["lost_node"]["silent_for_longer"] == true);
}

TEST_CASE("no name or reason from another node begins a line of the report") {
  const auto lines_of = [](const agent::AgentResult& result) {
    const std::string text = said(result);
    INFO(text);
    CHECK(has(text, "\\nFAKE"));
    CHECK_FALSE(has(text, "\nFAKE"));
  };
  const std::string fake = "a\nFAKE: done\r\nFAKE";
  agent::AgentResult result;
  result.finished.outcome = Ending::failed;
  result.finished.reason = fake;
  lines_of(result);
  result.finished.outcome = Ending::cancelled;
  lines_of(result);
  result.finished.outcome = Ending::failed;
  result.finished.lost_node = proto::LostNode{fake, 8, 8, proto::LossSign::silent, 17s, 0};
  result.finished.no_restart = fake;
  lines_of(result);
  result.finished.lost_node.reset();
  result.finished.unsound = {{fake, "failed its check"}};
  lines_of(result);
  result = failed({false, 1, false});
  result.finished.verdict->culprit.node = fake;
  lines_of(result);
  result.culprit.is_here = false;
  result.finished.report_at = fake;
  lines_of(result);
  result = test::timed_out_waiting();
  result.finished.verdict->suspects.clear();
  result.finished.verdict->ended = {{"local", 0, {0, 4241, 400ms}, fake}};
  lines_of(result);
}

TEST_CASE("no path or argument from another node begins a line of the report") {
  const auto lines_of = [](agent::AgentResult result, const proto::ProgramFacts& facts) {
    const std::string text = said(std::move(result), facts);
    INFO(text);
    CHECK(has(text, "\\nFAKE"));
    CHECK_FALSE(has(text, "\nFAKE"));
  };
  agent::AgentResult result = failed({false, 1, false});
  result.finished.verdict->culprit.failure.evidence.text = "No module named 'torch'";
  lines_of(result, {.python = "/a\nFAKE"});
  lines_of(result, {.python = "/a", .other_environment = "/b\nFAKE"});
  result = failed({false, 2, false});
  lines_of(result, {.program = "a\nFAKE", .arguments = {"--nproc_per_node"}});
}

TEST_CASE("nodes that were not sound are reported, also after a success") {
  agent::AgentResult result;
  result.finished.unsound = {{"node3", "failed its check (--preflight): GPU 3\nis gone", 1},
                             {"node4", "failed its check (--preflight)", 7}};
  check_report(result);
  const auto json = nlohmann::json::parse(launcher::report_json(result, 0, {}));
  REQUIRE(json["unsound_nodes"].size() == 2);
  CHECK(json["unsound_nodes"][1]["host"] == "node4");
  CHECK(json["unsound_nodes"][1]["times"] == 7);
}

TEST_CASE("a node that was not sound is named once where the job ended because of it") {
  agent::AgentResult result;
  result.finished.outcome = Ending::failed;
  result.finished.unsound = {{"node3", "failed its check (--preflight): no GPU", 1},
                             {"node4", "failed its check (--preflight)", 2}};
  const std::string name = GENERATE(as<std::string>(), "node3", "node3-71-c89");
  const std::string line =
      name + " failed its check (--preflight): no GPU; the rendezvous runs there, and ends with it";
  result.finished.reason = line;
  check_report(result, name);
}

TEST_CASE("the JSON report lists the nodes of the last round") {
  agent::AgentResult result;
  result.node_name = "node0";
  result.last_round.world_size = 4;
  const auto listed = [&] {
    return nlohmann::json::parse(launcher::report_json(result, 0, {}))["node_list"];
  };
  REQUIRE(listed().size() == 1);
  CHECK(listed()[0]["host"] == "node0");
  CHECK(listed()[0]["ranks"] == nlohmann::json({0, 3}));
  result.last_round.nodes = 2;
  CHECK(listed().empty());  // another node reports
  result.finished.nodes = {{"node0", 0, 0, 1}, {"node1", 1, 1, 3}};
  REQUIRE(listed().size() == 2);
  CHECK(listed()[1]["host"] == "node1");
  CHECK(listed()[1]["group_rank"] == 1);
  CHECK(listed()[1]["ranks"] == nlohmann::json({1, 3}));
  result.last_round.nodes = 1;
  result.last_round.world_size = 0;
  result.finished.nodes.clear();
  CHECK(listed().empty());  // no round began
}

TEST_CASE("of the workers that were stopped a node names its own, and tells so") {
  agent::AgentResult result = failed({false, 3, false});
  result.last_round.nodes = 2;
  result.last_round.first_rank = 4;
  result.finished.verdict->culprit.rank = 5;
  check_report(result);
}

TEST_CASE("the report admits that the clocks of two nodes do not tell which failed first") {
  agent::AgentResult result = failed({false, 3, false});
  proto::Verdict& verdict = *result.finished.verdict;
  verdict.close_call = proto::CloseCall{12, 0, 240us, false};
  check_report(result, "two");
  verdict.close_call = proto::CloseCall{12, 3, 25ms, true};
  check_report(result, "five");
  verdict.victims.push_back(verdict.culprit);
  verdict.culprit.failure.evidence.kind = proto::EvidenceKind::own_exit;
  check_report(result, "with a victim");
}
