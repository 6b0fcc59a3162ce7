// What the decoders of the control messages refuse, and what they ignore.
#include <catch2/catch.hpp>
#include <string>

#include "proto/error.hpp"
#include "proto/frame.hpp"
#include "proto/message_limits.hpp"
#include "proto/session_messages.hpp"
#include "tests/support/membership_json.hpp"

using namespace ddprun::proto;

namespace {

void check_malformed(const std::string& body) {
  INFO(body.substr(0, 200));
  CHECK(decode_client_message(body).error() == Errc::malformed);
}

/// `body` with the fields of the one message in it, or of what it holds.
Join decoded_join(const std::string& fields) {
  INFO(fields);
  const auto message = decode_agent_message("{\"join\":{\"workers\":1," + fields + "}}");
  REQUIRE(message.has_value());
  return std::get<Join>(*message);
}
void check_malformed_join(const std::string& fields) {
  INFO(fields.substr(0, 200));
  CHECK(decode_agent_message("{\"join\":{\"workers\":1," + fields + "}}").error() ==
        Errc::malformed);
}

std::string repeated(std::size_t count, const std::string& piece) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += (i > 0 ? "," : "") + piece;
  return all;
}

}  // namespace

TEST_CASE("what is not one JSON object with one message is malformed") {
  for (const char* body : {"",
                           " ",
                           "{",
                           "}",
                           "{}",
                           "[]",
                           "null",
                           "7",
                           "\"join\"",
                           "{\"bye\":{}",
                           "{\"bye\":{}}}",
                           "{\"bye\":{}} {}",
                           "{\"bye\":{},\"keep_alive\":{\"n\":1}}",
                           "{\"bye\":[]}",
                           "{\"bye\":null}",
                           "{\"bye\":7}",
                           "{'bye':{}}",
                           "{\"bye\":{},}",
                           "{\"bye\":{\"x\":\"\xff\"}}",
                           "{\"bye\":{\"x\":NaN}}",
                           "{\"bye\":{\"x\":Infinity}}",
                           "{\"seq\":7}"}) {
    check_malformed(body);
  }
}

TEST_CASE("a message of an unknown kind is told from a malformed one") {
  CHECK(decode_client_message(R"({"teleport":{"to":"mars"}})").error() == Errc::unknown_kind);
  CHECK(decode_service_message(R"({"join":{"workers":1}})").error() == Errc::unknown_kind);
  CHECK(decode_agent_message(R"({"round":{}})").error() == Errc::unknown_kind);
  CHECK(decode_membership_message(R"({"welcome":{}})").error() == Errc::unknown_kind);
}

TEST_CASE("unknown fields are ignored at every depth") {
  CHECK(decode_client_message(R"({"seq":1,"trace":"x","of":[{}],"leave":{"later":{"a":[1,{}]}}})")
            .has_value());
  CHECK(decoded_join(R"("settings":{"max_nodes":2,"colour":"red"})").settings.max_nodes == 2);
}

TEST_CASE("numbered messages need their number") {
  CHECK(decode_client_message(R"({"seq":1,"leave":{}})").has_value());
  for (const char* body :
       {R"({"leave":{}})", R"({"seq":0,"leave":{}})", R"({"seq":-1,"leave":{}})",
        R"({"seq":1.0,"leave":{}})", R"({"seq":"1","leave":{}})", R"({"seq":null,"leave":{}})",
        R"({"seq":18446744073709551616,"leave":{}})"}) {
    check_malformed(body);
  }
}

TEST_CASE("messages without what gives them their meaning are malformed") {
  for (const char* fields :
       {R"("join":{})", R"("started":{})", R"("workers_done":{})", R"("stopped":{})",
        R"("worker_failed":{"round":1})", R"("worker_failed":{"local_rank":1})",
        R"("stopped":{"round":1,"failures":[{}]})",
        R"("join":{"workers":1,"was_in":{"epoch":1}})"}) {
    check_malformed("{\"seq\":1," + std::string(fields) + "}");
  }
  for (const char* body : {R"({"round":{"number":1}})", R"({"stop":{}})", R"({"finished":{}})",
                           R"({"finished":{"outcome":"failed","verdict":{}}})"}) {
    INFO(body);
    CHECK(decode_membership_message(body).error() == Errc::malformed);
  }
  for (const char* body :
       {R"({"welcome":{}})", R"({"alive":{}})", R"({"prove":{}})", R"({"refused":{}})"}) {
    INFO(body);
    CHECK(decode_service_message(body).error() == Errc::malformed);
  }
}

TEST_CASE("values of another type are malformed") {
  CHECK(decoded_join(R"("age_ns":5)").age.count() == 5);
  for (const char* fields : {R"("age_ns":"5")",
                             R"("age_ns":5.0)",
                             R"("age_ns":5e3)",
                             R"("age_ns":null)",
                             R"("age_ns":true)",
                             R"("age_ns":[5])",
                             R"("role":5)",
                             R"("role":null)",
                             R"("role":["a"])",
                             R"("wants_report":1)",
                             R"("wants_report":"yes")",
                             R"("wants_report":null)",
                             R"("settings":[])",
                             R"("settings":null)",
                             R"("settings":"")",
                             R"("was_in":{})",
                             R"("was_in":[])",
                             R"("settings":{"restart":{"no_restart_codes":7}})",
                             R"("settings":{"restart":{"no_restart_codes":{}}})",
                             R"("settings":{"restart":{"no_restart_codes":["7"]}})"}) {
    check_malformed_join(fields);
  }
}

TEST_CASE("numbers out of their range are malformed") {
  CHECK(decoded_join(R"("store_port":65535)").store_port == 65'535);
  CHECK(decoded_join(R"("store_clients_max":2147483647)").store_clients_max == 2'147'483'647);
  CHECK(decoded_join(R"("settings":{"max_nodes":100000})").settings.max_nodes == kNodesMax);
  for (const char* fields :
       {R"("workers":0)", R"("workers":-1)", R"("workers":16385)", R"("workers":4294967297)",
        R"("store_port":65536)", R"("store_port":-1)", R"("store_clients_max":2147483648)",
        R"("store_clients_max":18446744073709551615)", R"("age_ns":-1)",
        R"("age_ns":9223372036854775807)", R"("age_ns":9223372036854775808)",
        R"("age_ns":100000000000000000000)", R"("requested_group_rank":-1)",
        R"("settings":{"max_nodes":100001})", R"("settings":{"min_nodes":0})",
        R"("settings":{"join_timeout_ns":-5})"}) {
    check_malformed_join(fields);
  }
  check_malformed(R"({"seq":1,"started":{"round":-1}})");
  check_malformed(R"({"seq":1,"stopped":{"round":1,"failures":[{"local_rank":-1}]}})");
}

TEST_CASE("instants may be negative and ranks unknown") {
  const auto failed =
      decode_agent_message(R"({"worker_failed":{"round":1,"local_rank":0,"at_ns":-5}})");
  CHECK(std::get<WorkerFailed>(*failed).at.count() == -5);
  const std::string verdict = R"({"finished":{"outcome":"failed","verdict":{"culprit":)";
  CHECK(decode_membership_message(verdict + R"({"rank":-1,"failure":{"local_rank":0}}}}})")
            .has_value());
  CHECK(
      decode_membership_message(verdict + R"({"rank":-2,"failure":{"local_rank":0}}}}})").error() ==
      Errc::malformed);
}

TEST_CASE("names of values that do not exist are malformed") {
  CHECK(decode_membership_message(R"({"finished":{"outcome":"succeeded"}})").has_value());
  for (const char* outcome : {"\"won\"", "\"\"", "0", "null"}) {
    INFO(outcome);
    CHECK(decode_membership_message("{\"finished\":{\"outcome\":" + std::string(outcome) + "}}")
              .error() == Errc::malformed);
  }
}

TEST_CASE("texts and lists above their limits are malformed") {
  CHECK(decoded_join("\"role\":\"" + std::string(kNameBytesMax, 'x') + "\"").role.size() ==
        kNameBytesMax);
  check_malformed_join("\"role\":\"" + std::string(kNameBytesMax + 1, 'x') + "\"");
  const auto codes = [](std::size_t count) {
    return "\"settings\":{\"restart\":{\"no_restart_codes\":[" + repeated(count, "1") + "]}}";
  };
  CHECK(decoded_join(codes(kNoRestartCodesMax)).settings.restart.no_restart_codes.size() ==
        kNoRestartCodesMax);
  check_malformed_join(codes(kNoRestartCodesMax + 1));
  check_malformed("{\"seq\":1,\"leave\":{\"error\":\"" + std::string(kTextBytesMax + 1, 'x') +
                  "\"}}");
}

TEST_CASE("bytes as hexadecimal digits have their exact length") {
  const auto prove = [](const std::string& digits) {
    return decode_client_message("{\"prove\":{\"proof\":\"" + digits + "\"}}");
  };
  CHECK(std::get<Prove>(*prove(std::string(64, 'f'))).proof[31] == 255);
  for (const std::string& digits :
       {std::string(63, '0'), std::string(65, '0'), std::string(66, '0'),
        std::string(62, '0') + "-1", std::string(62, '0') + "0x", std::string(62, '0') + " 1",
        std::string()}) {
    INFO(digits);
    CHECK(prove(digits).error() == Errc::malformed);
  }
}

TEST_CASE("objects and arrays nested as deep as a frame allows are refused") {
  check_malformed("{\"bye\":" + std::string(kFrameBytesMax - 10, '['));
  const std::size_t depth = kFrameBytesMax / 2 - 10;
  CHECK(decode_client_message("{\"bye\":{\"x\":" + std::string(depth, '[') +
                              std::string(depth, ']') + "}}")
            .has_value());
}

TEST_CASE("a join with values that contradict each other is malformed") {
  check_malformed_join("\"settings\":{\"min_nodes\":5,\"max_nodes\":2}");
  check_malformed_join("\"settings\":{\"min_nodes\":2}");
  check_malformed_join("\"insists_on_rank\":true");
  CHECK(decoded_join("\"settings\":{\"min_nodes\":2,\"max_nodes\":2}").settings.min_nodes == 2);
  CHECK(decoded_join("\"insists_on_rank\":true,\"requested_group_rank\":0").insists_on_rank);
}

TEST_CASE("a slowest worker of which it is not known how far it is, is malformed") {
  const auto stopped = [](const std::string& progress) {
    return decode_agent_message(R"({"stopped":{"round":0,"slowest":{"as_hang":{"local_rank":0)" +
                                progress + "}}}}");
  };
  CHECK(stopped("").error() == Errc::malformed);
  CHECK(stopped(R"(,"progress":{"step":7})").has_value());
}
