// The times of --rdzv-conf: each pair of them gives a set that fits together, or a clear refusal.
#include <catch2/catch.hpp>

#include "launcher/options/rdzv_conf.hpp"

using namespace ddprun::launcher;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

RdzvTimes times(const std::string& conf) {
  const auto taken = rdzv_times(*parse_rdzv_conf(conf));
  if (!taken) FAIL(taken.error().message);
  return *taken;
}

std::string refusal(const std::string& conf) {
  const auto taken = rdzv_times(*parse_rdzv_conf(conf));
  if (taken) FAIL("was accepted: " << conf);
  CHECK(taken.error().exit_code == 2);
  return taken.error().message;
}

}  // namespace

TEST_CASE("a node is lost after as many silent keep-alives as the settings allow") {
  CHECK(times("").lease == 15s);
  CHECK(times("keep_alive_interval=1").lease == 3s);
  CHECK(times("keep_alive_max_attempt=2").lease == 10s);
  CHECK(times("keep_alive_interval=0.5,keep_alive_max_attempt=2").lease == 1s);
  CHECK(refusal("keep_alive_interval=0.25,keep_alive_max_attempt=3") ==
        "--rdzv-conf: keep_alive_interval x keep_alive_max_attempt is 0.25 s x 3; expected 1 s or "
        "more in all, as in keep_alive_interval=5,keep_alive_max_attempt=3");
  CHECK_THAT(refusal("keep_alive_max_attempt=0"), Contains("5 s x 0"));
}

TEST_CASE("as long a lease as torchrun allows is the longest one here") {
  for (const char* conf : {"keep_alive_interval=1h", "keep_alive_max_attempt=100000",
                           "keep_alive_max_attempt=9223372036854775807"}) {
    const RdzvTimes taken = times(conf);
    CHECK(taken.lease == 1h);
    CHECK(taken.lost_timeout == 1h);
    REQUIRE(taken.warnings.size() == 1);
    CHECK_THAT(taken.warnings.front(), Contains("1 h is used"));
  }
}

TEST_CASE("a job that is healthy outlives any lost_timeout") {
  CHECK(times("").lost_timeout == 300s);
  CHECK(times("lost_timeout=3").lost_timeout == 3s);
  CHECK(times("lost_timeout=3").lease == 3s);
  CHECK(times("lost_timeout=3").warnings.empty());
  CHECK(times("lost_timeout=60").lease == 15s);
  // A lease of torchrun's keys that is longer than the usual lost_timeout.
  CHECK(times("keep_alive_interval=300").lost_timeout == 900s);
  const RdzvTimes both = times("keep_alive_interval=30,lost_timeout=60");
  CHECK(both.lease == 60s);
  CHECK(both.warnings ==
        std::vector<std::string>{
            "--rdzv-conf: lost_timeout is 60 s, shorter than keep_alive_interval x "
            "keep_alive_max_attempt (90 s), so a node may be silent for 60 s only"});
  CHECK(refusal("lost_timeout=0.5") ==
        "--rdzv-conf: lost_timeout is 0.5 s; expected 1 s or more, as in lost_timeout=60");
}

TEST_CASE("a lost_timeout that was not given may follow the lease") {
  CHECK(rdzv_times({}, 15s)->lost_timeout == 30s);
  CHECK(rdzv_times(*parse_rdzv_conf("keep_alive_interval=600"), 15s)->lost_timeout == 1815s);
  CHECK(rdzv_times(*parse_rdzv_conf("lost_timeout=4"), 15s)->lease == 4s);
}

TEST_CASE("each pair of times fits together or is refused by its names") {
  const std::vector<std::string> keys = {
      "join_timeout",          "timeout",      "last_call_timeout", "close_timeout",
      "heartbeat_timeout",     "read_timeout", "lost_timeout",      "keep_alive_interval",
      "keep_alive_max_attempt"};
  const std::vector<std::string> values = {"1", "2", "5", "15", "299", "301", "5000", "1000000000"};
  int accepted = 0;
  for (const auto& one : keys) {
    for (const auto& other : keys) {
      for (const auto& value : values) {
        for (const auto& other_value : values) {
          const std::string conf = one + "=" + value + "," + other + "=" + other_value;
          INFO(conf);
          // torchrun takes all of these, so none is refused.
          const RdzvTimes taken = times(conf);
          CHECK(taken.lease >= 1s);
          CHECK(taken.lease <= 1h);
          CHECK(taken.lease <= taken.lost_timeout);
          ++accepted;
        }
      }
    }
  }
  CHECK(accepted == 9 * 9 * 8 * 8);
}
