// The worked example of docs/protocol.md, decoded and answered.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/hex.hpp"
#include "tests/unit/rendezvous/store/pure_store.hpp"

using namespace ddprun::test;

TEST_CASE("the store answers as in the example of docs/protocol.md") {
  std::ifstream document(DDPRUN_PROTOCOL_DOCUMENT);
  REQUIRE(document.good());
  PureStore store;
  std::string line;
  std::string pending;  // what the store has sent and the document has not told yet
  std::size_t lines = 0;
  bool inside = false;
  while (std::getline(document, line)) {
    if (line == "```c10d") inside = true;
    if (line == "```") inside = false;
    if (!inside || line.size() < 2) continue;
    INFO(line);
    if (line[0] == '>') {
      REQUIRE(pending.empty());
      store.send(0, from_hex(line.substr(1)));
      pending = store.received(0);
      ++lines;
    } else if (line[0] == '<') {
      CHECK(to_hex(pending) == to_hex(from_hex(line.substr(1))));
      pending.clear();
      ++lines;
    }
  }
  CHECK(pending.empty());
  CHECK(lines == 16);
  CHECK(store.closed(0) == ddprun::proto::c10d::Refusal::Why::none);
}
