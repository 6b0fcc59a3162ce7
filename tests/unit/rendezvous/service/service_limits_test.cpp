// docs/protocol.md against the code: the limits of control connections.
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include <fmt/format.h>

#include "rendezvous/service/service_peer.hpp"
#include "rendezvous/service/service_server.hpp"
#include "tests/support/document_table.hpp"

using namespace ddprun;

namespace {

std::string with_commas(std::uint64_t number) {
  std::string text = fmt::format("{}", number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

}  // namespace

TEST_CASE("docs/protocol.md names the limits of control connections") {
  const rdzv::ServiceServerSettings server;
  const auto ms = [](std::chrono::milliseconds time) {
    return static_cast<std::uint64_t>(time.count());
  };
  const std::map<std::string, std::uint64_t> limits = {
      {"connections", server.connections_max},
      {"connections without a session", server.newcomers.places},
      {"the share of one address of these", server.newcomers.places_per_addr},
      {"shortest stay without a session, in ms", ms(server.newcomers.kept)},
      {"ms to the first five bytes", ms(server.silent_within)},
      {"ms to the hello and the proof, and then between messages, without a session",
       ms(server.open_within)},
      {"bytes of output that a client has not read", rdzv::ServicePeer::kOutputBytesMax},
      {"jobs", server.service.jobs_max},
      {"agents of a job", server.service.sessions_per_job_max},
  };
  std::map<std::string, std::string> expected;
  for (const auto& [name, limit] : limits) expected[name] = with_commas(limit);
  std::map<std::string, std::string> documented;
  for (const auto& row :
       test::table_in(DDPRUN_PROTOCOL_DOCUMENT, "| limit of control connections |"))
    if (row[1] != "value") documented[row[0]] = row[1];
  CHECK(documented == expected);
}
