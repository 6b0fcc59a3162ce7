// The control messages as JSON: what is written is read back, and how large it is.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <string>

#include "proto/error.hpp"
#include "proto/message_limits.hpp"
#include "proto/session_messages.hpp"
#include "tests/support/membership_json.hpp"
#include "tests/support/random_message.hpp"

using namespace ddprun;
using namespace ddprun::proto;
using namespace std::chrono_literals;
using ddprun::test::is_same_message;
using ddprun::test::RandomMessage;

namespace {

Result<ClientMessage> decode_as(const ClientMessage&, std::string_view body) {
  return decode_client_message(body);
}
Result<ServiceMessage> decode_as(const ServiceMessage&, std::string_view body) {
  return decode_service_message(body);
}
Result<AgentMessage> decode_as(const AgentMessage&, std::string_view body) {
  return decode_agent_message(body);
}
Result<MembershipMessage> decode_as(const MembershipMessage&, std::string_view body) {
  return decode_membership_message(body);
}

/// Every alternative of the variant, so many times, with all fields set at first.
template <class Variant>
void check_round_trips(int runs) {
  for (int seed = 0; seed < runs; ++seed) {
    RandomMessage random(static_cast<unsigned>(seed));
    random.complete = seed % 2 == 0;
    for (std::size_t index = 0; index < std::variant_size_v<Variant>; ++index) {
      const auto message = random.alternative<Variant>(index);
      const std::string text = encode(message);
      INFO("seed " << seed << ": " << text);
      const auto again = decode_as(message, text);
      REQUIRE(again.has_value());
      REQUIRE(is_same_message(message, *again));
      REQUIRE(encode(*again) == text);
    }
  }
}

std::string name_of(std::size_t node) {
  return fmt::format("gpu-node-{:04}.cluster.example", node);
}

Join small_join() {
  Join join;
  join.local_world_size = 1;
  return join;
}

Join realistic_join() {
  Join join;
  join.local_world_size = 8;
  join.requested_group_rank = 12;
  join.node_name = name_of(12);
  join.boot_id = "5f4dcc3b-5aa7-4d61-83d8-327deb882cf9";
  join.age = 1'234'567'890ns;
  join.store_addr = "10.20.30.40";
  join.store_port = 43'210;
  join.store_clients_max = 1'048'576;
  join.settings.min_nodes = 64;
  join.settings.max_nodes = 128;
  join.settings.restart.max_restarts = 3;
  join.was_in = PastRound{.epoch = 1, .number = 4, .restart_count = 2};
  return join;
}

Round realistic_round() {
  return {.epoch = 1,
          .number = 4,
          .reason = "worker failed: rank 812, killed by SIGKILL",
          .group_rank = 12,
          .group_world_size = 128,
          .first_rank = 96,
          .world_size = 1024,
          .first_role_rank = 96,
          .role_world_size = 1024,
          .restart_count = 2,
          .max_restarts = 3,
          .master_addr = "10.20.30.40",
          .master_port = 43'210};
}

}  // namespace

TEST_CASE("every message comes back from JSON as it was") {
  check_round_trips<AgentMessage>(300);
  check_round_trips<MembershipMessage>(300);
  check_round_trips<ClientMessage>(300);
  check_round_trips<ServiceMessage>(300);
}

TEST_CASE("a message that is as a new one has only its required fields") {
  CHECK(encode(AgentMessage(Leave{})) == R"({"leave":{}})");
  CHECK(encode(AgentMessage(Started{3})) == R"({"started":{"round":3}})");
  CHECK(encode(AgentMessage(Stopped{})) == R"({"stopped":{"round":0}})");
  CHECK(encode(ClientMessage(Numbered{7, Started{3}})) == R"({"seq":7,"started":{"round":3}})");
  CHECK(encode(ClientMessage(Bye{})) == R"({"bye":{}})");
  // Settings are those of a new struct, and an optional one is there.
  CHECK(encode(AgentMessage(small_join())) == R"({"join":{"workers":1}})");
  Stopped stopped;
  stopped.still_ran.resize(1);
  stopped.still_ran[0].progress.emplace();
  CHECK(encode(AgentMessage(stopped)) ==
        R"({"stopped":{"round":0,"still_ran":[{"local_rank":0,"progress":{}}]}})");
}

TEST_CASE("an optional field that is set in a new struct is null where it is not") {
  Join join = small_join();
  join.settings.grow_delay.reset();
  const std::string text = encode(AgentMessage(join));
  CHECK(text == R"({"join":{"workers":1,"settings":{"grow_delay_ns":null}}})");
  CHECK_FALSE(std::get<Join>(*decode_agent_message(text)).settings.grow_delay.has_value());
}

TEST_CASE("messages are as large as the protocol plans them") {
  CHECK(encode(AgentMessage(realistic_join())).size() < 450);
  CHECK(encode(MembershipMessage(realistic_round())).size() < 330);
  CHECK(encode(ClientMessage(Numbered{9, Started{3}})).size() < 40);
  WorkerFailed failed;
  failed.round = 3;
  failed.local_rank = 5;
  failed.pid = 123'456;
  failed.exit = {.by_signal = true, .value = 9};
  failed.ran_for = 3'600s;
  failed.at = 3'601s;
  CHECK(encode(ClientMessage(Numbered{9, failed})).size() < 350);
  CHECK(encode(ClientMessage(KeepAlive{12'345, 86'400s})).size() < 70);
  CHECK(encode(ServiceMessage(Alive{12'345, 86'400s, 86'400s, 9})).size() < 110);
  CHECK(encode(ServiceMessage(Welcome{1, true, 9, 15s, 3s, 86'400s, true})).size() < 170);
}

TEST_CASE("what is no UTF-8 is replaced") {
  const AgentMessage leave = Leave{.error = std::string("a\xff\xc3") + "b"};
  const std::string text = encode(leave);
  CHECK(text == "{\"leave\":{\"error\":\"a\uFFFD\uFFFDb\"}}");
  CHECK(decode_agent_message(text).has_value());
}

TEST_CASE("a text or list of ours above its limit is cut and can be read") {
  Join join = small_join();
  for (const std::string piece : {"x", "ä", "日", "😀", "\xff", "\"", "\x01"}) {
    join.node_name = "n";
    while (join.node_name.size() <= kNameBytesMax + 4) join.node_name += piece;
    INFO(piece);
    const auto again = decode_agent_message(encode(AgentMessage(join)));
    REQUIRE(again.has_value());
    const std::string& name = std::get<Join>(*again).node_name;
    CHECK(name.size() <= kNameBytesMax);
    CHECK(name.size() + 4 > kNameBytesMax);
  }
  Waiting waiting;
  waiting.missing.resize(kWaitingNamesMax + 1, "node");
  const auto again = decode_membership_message(encode(MembershipMessage(waiting)));
  CHECK(std::get<Waiting>(*again).missing.size() == kWaitingNamesMax);
}

TEST_CASE("a span longer than a hundred years is sent as a hundred years") {
  Join join = small_join();
  join.settings.join_timeout = std::chrono::nanoseconds::max();
  const auto again = decode_agent_message(encode(AgentMessage(join)));
  CHECK(std::get<Join>(*again).settings.join_timeout == kSpanMax);
}
