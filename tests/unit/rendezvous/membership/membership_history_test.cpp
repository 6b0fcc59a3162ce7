// What holds for the membership core in any state and any history.
#include "rendezvous/membership/membership.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "tests/support/document_table.hpp"
#include "tests/unit/rendezvous/membership/script.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using rdzv::JobState;
using rdzv::Membership;
using test::nodes;
using test::Script;

TEST_CASE("every state answers every event, as docs/architecture.md says") {
  const auto rows = test::table_in(DDPRUN_TABLES_DOCUMENT, "| event | forming |");
  REQUIRE(rows.size() == rdzv::kEventKinds + 1);
  REQUIRE(rows[0].size() == rdzv::kJobStates + 1);
  for (int state = 0; state < rdzv::kJobStates; ++state)
    CHECK(rows[0][static_cast<std::size_t>(state) + 1] == to_string(static_cast<JobState>(state)));
  for (int kind = 0; kind < rdzv::kEventKinds; ++kind) {
    const auto& row = rows[static_cast<std::size_t>(kind) + 1];
    const auto event = static_cast<rdzv::EventKind>(kind);
    CHECK(row[0] == to_string(event));
    REQUIRE(row.size() == rows[0].size());
    for (int state = 0; state < rdzv::kJobStates; ++state) {
      const auto response = Membership::response(static_cast<JobState>(state), event);
      const std::string& said = row[static_cast<std::size_t>(state) + 1];
      CAPTURE(to_string(event), state);
      CHECK(response == (said == "-" ? "ignored" : said));
    }
  }
}

TEST_CASE("any history of events keeps the invariants, and forming ends in time") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Script job(nodes(1 + static_cast<int>(seed % 3), 3, 2));
    const std::vector<std::string> agents{"a", "b", "c", "d"};
    for (int step = 0; step < 200 && job.membership.state() != JobState::finished; ++step) {
      const std::string& agent = agents[random() % agents.size()];
      const proto::RoundNumber next = job.membership.next_round();
      const proto::RoundNumber round = next == 0 ? 0 : next - 1 - random() % 2 * (next > 1 ? 1 : 0);
      switch (random() % 8) {
        case 0:
        case 1:
          job.join(agent, 1 + static_cast<int>(random() % 3));
          break;
        case 2:
          job.say(agent, proto::Started{round});
          break;
        case 3:
          job.say(agent, test::failed_in(round));
          break;
        case 4:
          job.say(agent, proto::WorkersDone{round});
          break;
        case 5:
          job.say(agent, proto::Stopped{round, {}});
          break;
        case 6:
          random() % 2 ? job.lose(agent) : job.say(agent, proto::Leave{15, ""});
          break;
        default:
          job.pass(std::chrono::seconds(random() % 60));
          break;
      }
      CHECK(job.membership.restart_count() <= 2);
    }
    // Every round numbered once per agent, rising.
    for (const auto& [agent, messages] : job.inbox) {
      std::int64_t last = -1;
      for (const auto& message : messages) {
        if (const auto* out = std::get_if<proto::Round>(&message)) {
          CHECK(static_cast<std::int64_t>(out->number) > last);
          last = static_cast<std::int64_t>(out->number);
          CHECK(out->first_rank < out->world_size);
        }
      }
    }
    if (job.membership.state() != JobState::finished) job.pass(3600s);
    if (job.membership.state() == JobState::forming) job.pass(3600s);
    CHECK(job.membership.state() != JobState::forming);
  }
}

TEST_CASE("names sort as people count") {
  CHECK(rdzv::natural_less("node2", "node10"));
  CHECK_FALSE(rdzv::natural_less("node10", "node2"));
  CHECK(rdzv::natural_less("10.0.0.9", "10.0.0.10"));
  CHECK(rdzv::natural_less("node9", "node010"));  // strverscmp sees a fraction
  CHECK(rdzv::natural_less("a", "b"));
  CHECK(rdzv::natural_less("a", "a1"));
  CHECK_FALSE(rdzv::natural_less("a", "a"));
  CHECK(rdzv::natural_less("node01", "node1") != rdzv::natural_less("node1", "node01"));
}
