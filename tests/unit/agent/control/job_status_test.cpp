// What a status has of each worker.
#include "agent/control/job_status.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/agent/node/scripted_node.hpp"

using namespace ddprun;
using namespace ddprun::agent;
using Catch::Matchers::Contains;

namespace {

/// There are two workers, of which the second one has devices of its own.
std::string status(const LastLine& last_line = {}) {
  test::ScriptedNode node(2);
  node.round();
  node.start();
  node.config.workers[1].visible_devices = "1";
  return job_status(node.config, node.machine, {}, {}, {}, last_line);
}

}  // namespace

TEST_CASE("a status names the devices of the workers that have some of their own") {
  const std::string text = status();
  CHECK_THAT(text, Contains(R"("devices_variable":"CUDA_VISIBLE_DEVICES")") &&
                       Contains(R"("devices":"1")") && !Contains(R"("devices":"0")"));
}

TEST_CASE("a status has the last lines of workers only where they are asked for") {
  CHECK_THAT(status(), !Contains("last_line"));
  const auto lines = [](proto::RoundNumber start, int local_rank) {
    CHECK(start == 0);
    return local_rank == 0 ? std::string("loss \"1\"\x1b\xff") : std::string();
  };
  const std::string text = status(lines);
  CHECK_THAT(text, Contains(R"("last_line":"loss \"1\"\u001b)"));
  CHECK(text.find("last_line") == text.rfind("last_line"));
}

TEST_CASE("a last line is cut to whole characters") {
  const auto lines = [](proto::RoundNumber, int) {
    std::string line = "x";
    while (line.size() < 1'000'000) line += "\u20ac";
    return line;
  };
  const std::string text = status(lines);
  CHECK(text.size() < 2000);
  CHECK_THAT(text, Contains("\u20ac\",") && !Contains("\ufffd"));
}
