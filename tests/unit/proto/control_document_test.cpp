// docs/protocol.md against the code: the worked example of the control connections and the limits.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/frame_tag.hpp"
#include "proto/message_limits.hpp"
#include "proto/session_messages.hpp"
#include "tests/support/document_table.hpp"
#include "tests/support/membership_json.hpp"
#include "tests/support/random_message.hpp"

using namespace ddprun::proto;

namespace {

struct Line {
  bool from_client = false;
  std::string body;
};

std::vector<Line> example() {
  std::ifstream document(DDPRUN_PROTOCOL_DOCUMENT);
  REQUIRE(document.good());
  std::vector<Line> lines;
  std::string line;
  bool inside = false;
  while (std::getline(document, line)) {
    if (line.starts_with("```")) inside = line == "```control";
    if (!inside) continue;
    if (line.starts_with("> ") || line.starts_with("< ")) {
      lines.push_back({line[0] == '>', line.substr(2)});
    } else if (line.starts_with("  ")) {
      lines.back().body += line.substr(2);
    }
  }
  return lines;
}

bool is_hello(const Line& line) { return line.body.starts_with("{\"ddprun\""); }

/// Reads a message and writes it again.
std::string written_again(const Line& line) {
  if (is_hello(line)) return encode_hello(decode_hello(line.body).value());
  return line.from_client ? encode(decode_client_message(line.body).value())
                          : encode(decode_service_message(line.body).value());
}

/// The name behind the last `":{` that opens the message: {"seq":7,"NAME":{...
std::string kind_of(const std::string& body) {
  const std::size_t end = body.find("\":{");
  const std::size_t begin = body.rfind('"', end - 1) + 1;
  return body.substr(begin, end - begin);
}

template <class Variant>
void add_kinds(std::set<std::string>& kinds) {
  ddprun::test::RandomMessage random(1);
  for (std::size_t index = 0; index < std::variant_size_v<Variant>; ++index) {
    kinds.insert(kind_of(encode(random.alternative<Variant>(index))));
  }
}

std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

}  // namespace

TEST_CASE("the control messages of docs/protocol.md are read, and written as they stand there") {
  const auto lines = example();
  CHECK(lines.size() > 20);
  for (const Line& line : lines) {
    INFO(line.body);
    CHECK(written_again(line) == line.body);
  }
}

TEST_CASE("docs/protocol.md has an example and a row of every control message") {
  std::set<std::string> all = {"hello"};
  add_kinds<AgentMessage>(all);
  add_kinds<MembershipMessage>(all);
  add_kinds<ClientMessage>(all);
  add_kinds<ServiceMessage>(all);
  std::set<std::string> shown;
  for (const Line& line : example()) shown.insert(is_hello(line) ? "hello" : kind_of(line.body));
  CHECK(shown == all);
  std::set<std::string> rows;
  for (const auto& row : ddprun::test::table_in(DDPRUN_PROTOCOL_DOCUMENT, "| message |")) {
    if (row[0] != "message") rows.insert(row[0]);
  }
  CHECK(rows == all);
}

TEST_CASE("the proofs in docs/protocol.md are those of its hellos") {
  std::vector<HelloHash> hellos;
  std::vector<Proof> proofs;
  for (const Line& line : example()) {
    if (is_hello(line)) {
      hellos.push_back(hash_of_hello(line.body));
    } else if (kind_of(line.body) == "prove") {
      proofs.push_back(std::get<Prove>(decode_client_message(line.body).value()).proof);
    }
  }
  REQUIRE(hellos.size() == 2);
  REQUIRE(proofs.size() == 2);
  const Handshake handshake{hellos[0], hellos[1]};
  const std::string secret = "correct horse battery staple";
  CHECK(is_same(proofs[0], proof(secret, Side::client, handshake)));
  CHECK(is_same(proofs[1], proof(secret, Side::service, handshake)));
}

TEST_CASE("docs/protocol.md names the limits of control messages") {
  const std::map<std::string, std::uint64_t> limits = {
      {"bytes of a frame before the proof", kFrameBytesBeforeProof},
      {"bytes of a frame", kFrameBytesMax},
      {"bytes of a name: run, agent, node, role, address", kNameBytesMax},
      {"bytes of a text: reason, error, evidence", kTextBytesMax},
      {"bytes of a line", kLineBytesMax},
      {"last lines of a worker", kLastLinesMax},
      {"lines of a worker's stacks", kStackLinesMax},
      {"nodes of a job", kNodesMax},
      {"workers of a node", kWorkersPerNodeMax},
      {"nodes by name in waiting, of those that have joined, of the checked and of the missing "
       "ones",
       kWaitingNamesMax},
      {"nodes in the list of those that were not sound", kUnsoundNodesMax},
      {"workers in each list of a verdict", kVerdictWorkersMax},
      {"jobs in a page of status", kStatusJobsMax},
      {"members of all jobs in a page of status", kStatusMembersMax},
      {"years of a time span", static_cast<std::uint64_t>(kSpanMax / std::chrono::hours(24 * 365))},
  };
  std::map<std::string, std::string> expected;
  for (const auto& [name, limit] : limits) expected[name] = with_commas(limit);
  std::map<std::string, std::string> documented;
  for (const auto& row :
       ddprun::test::table_in(DDPRUN_PROTOCOL_DOCUMENT, "| limit of control messages |")) {
    if (row[1] != "value") documented[row[0]] = row[1];
  }
  CHECK(documented == expected);
}
