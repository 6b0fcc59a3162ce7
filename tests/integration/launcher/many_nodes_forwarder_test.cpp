// A node that reaches the rendezvous through a forwarder, which dies while the rendezvous lives on.
#include <climits>
#include <map>

#include "tests/integration/launcher/running_rdzvd.hpp"

using namespace ddprun;
using namespace ddprun::test;

namespace {

struct Life {
  long long first = LLONG_MAX;
  long long last = 0;
};

/// When workers of each round lived, by their own log.
std::map<int, Life> lives(const std::string& path) {
  std::map<int, Life> found;
  std::ifstream log(path);
  int round = 0;
  for (long long at = 0; log >> round >> at;) {
    Life& life = found[round];
    life.first = std::min(life.first, at);
    life.last = std::max(life.last, at);
  }
  return found;
}

}  // namespace

TEST_CASE("a forwarder that dies never leaves two groups of workers at one time") {
  const bool resets = GENERATE(false, true);
  INFO((resets ? "by a reset" : "in order"));
  ManyNodes job;
  const TempDir folder;
  const std::string log = (folder.path() / "log").string();
  const Rdzvd rdzvd;
  std::vector<std::string> command{helper("forwarder"),
                                   rdzvd.endpoint.substr(rdzvd.endpoint.find(':') + 1)};
  if (resets) command.push_back("reset");
  Child forwarder(command);
  REQUIRE(forwarder.wait_for_output("\n"));
  const std::string port = forwarder.out().substr(0, forwarder.out().find('\n'));
  const std::vector<std::string> actions{"log", log, "until", job.gate()};
  Child& near = job.start(rdzvd.options("1:2", kShortLease), actions);
  auto options = rdzvd.options("1:2", kShortLease);
  for (std::string& option : options)
    if (option.starts_with("--rdzv-endpoint=")) option = "--rdzv-endpoint=127.0.0.1:" + port;
  Child& far = job.start(options, actions);
  for (Child* node : {&near, &far}) REQUIRE(node->wait_for_output("/4 "));
  forwarder.signal(SIGKILL);
  REQUIRE(near.wait_for_output("round=1"));
  job.open_gate();
  CHECK(near.wait().status == 0);
  far.signal(SIGTERM);
  far.wait();
  const auto rounds = lives(log);
  REQUIRE(rounds.size() == 2);
  CHECK(rounds.at(0).last < rounds.at(1).first);
}
