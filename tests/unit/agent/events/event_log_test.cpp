// What happens to a job becomes numbered events, of which the newest are kept.
#include "agent/events/event_log.hpp"

#include <catch2/catch.hpp>
#include <csignal>

#include "agent/control/job_request.hpp"
#include "agent/events/event_json.hpp"
#include "tests/unit/agent/node/scripted_node.hpp"

using namespace ddprun;
using namespace ddprun::agent;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> events_of(const EventLog& log, std::uint64_t from = 0) {
  std::vector<std::string> all;
  for (const JobEvent* event = log.from(from); event != nullptr;
       event = log.from(event->number + 1))
    all.push_back(event_json(*event, "a"));
  return all;
}

}  // namespace

TEST_CASE("events have numbers without gaps, and the newest are kept") {
  EventLog log;
  CHECK(log.from(0) == nullptr);
  for (std::size_t i = 0; i < EventLog::kEventsMax + 10; ++i)
    log.add(LinePrinted{std::to_string(i)}, std::nullopt, {});
  CHECK(log.next_number() == EventLog::kEventsMax + 11);
  CHECK(log.from(0)->number == 11);
  CHECK(log.from(500)->number == 500);
  CHECK(log.from(log.next_number()) == nullptr);
  log.add(LinePrinted{std::string(EventText::kBytesMax + 1, 'x')}, std::nullopt, {});
  const auto& said = std::get<LinePrinted>(log.from(log.next_number() - 1)->what);
  CHECK(said.text.text.size() == EventText::kBytesMax);
}

TEST_CASE("a round's events tell of its workers") {
  test::ScriptedNode node(2);
  EventLog log;
  const auto on = [&](NodeEvent event) {
    log.note(event, node.machine, {});
    node.on(std::move(event));
  };
  proto::Round round;
  round.world_size = 4;
  round.first_rank = 2;
  round.reason = "first round";
  on(round);
  node.pass(std::chrono::seconds(1));
  on(WorkerExited{.local_rank = 1, .exit = {true, SIGKILL, false}});
  on(JobSignal{SIGTERM, {}});
  const auto events = events_of(log);
  REQUIRE(events.size() == 3);
  CHECK(
      events[0] ==
      R"({"number":1,"time":"1970-01-01T00:00:00.000Z","event":"round_began","node":"a","round":0,)"
      R"("restart_count":0,"nodes":1,"world_size":4,"first_rank":2,"kept_workers":0,"reason":"first round"})");
  CHECK_THAT(events[1], Contains(R"("event":"worker_ended")") &&
                            Contains(R"("rank":3,"local_rank":1)") &&
                            Contains(R"("signal":9,"core_dumped":false)") &&
                            Contains(R"("was_stopped":false)"));
  CHECK_THAT(events[2], Contains(R"("event":"signal")") && Contains(R"("signal":"SIGTERM")"));
}

TEST_CASE("a request is one of those that are known, with what it needs") {
  const auto of = [](std::string_view text) {
    const auto request = parse_job_request(text);
    REQUIRE(request.has_value());
    return *request;
  };
  CHECK(std::holds_alternative<StatusWanted>(of("{}")));
  CHECK(std::holds_alternative<StatusWanted>(of(R"({"request":"status","more":1})")));
  CHECK(std::get<StatusWanted>(of(R"({"request":"status","last_lines":true})")).last_lines);
  CHECK_FALSE(std::get<StatusWanted>(of(R"({"request":"status","last_lines":1})")).last_lines);
  CHECK(std::get<EventsWanted>(of(R"({"request":"events","from":7,"follow":true})")).from == 7);
  CHECK(std::holds_alternative<RestartWanted>(of(R"({"request":"restart"})")));
  CHECK(std::holds_alternative<EndWanted>(of(R"({"request":"wait"})")));
  CHECK(std::get<StopWanted>(of(R"({"request":"stop","now":true})")).now);
  CHECK(std::get<StacksWanted>(of(R"({"request":"stacks","rank":3})")).rank == 3);
  CHECK(std::get<SaveWanted>(of(R"({"request":"save","timeout_seconds":5})")).limit ==
        std::chrono::seconds(5));
  CHECK(std::get<SignalWanted>(of(R"({"request":"signal","signal":10})")).signal == 10);
  for (const char* const bad :
       {"", "[]", "7", "{", R"({"request":7})", R"({"request":"x\u001b"})",
        R"({"request":"stacks"})", R"({"request":"stacks","rank":-1})", R"({"request":"signal"})",
        R"({"request":"save"})", R"({"request":"save","timeout_seconds":99999999999})",
        R"({"request":"signal","signal":0})", R"({"request":"signal","signal":99})",
        R"({"request":"signal","signal":10,"rank":"x"})"}) {
    INFO(bad);
    const auto request = parse_job_request(bad);
    REQUIRE(request.has_error());
    CHECK(request.error().find('\x1b') == std::string::npos);
  }
}
