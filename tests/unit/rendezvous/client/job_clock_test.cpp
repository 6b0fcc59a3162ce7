// Job time on an agent, estimated from what the service answers.
#include "rendezvous/client/job_clock.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>

#include "tests/unit/rendezvous/client/session_script.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using rdzv::JobClock;
using rdzv::SessionClock;
using std::chrono::nanoseconds;

namespace {

constexpr SessionClock::time_point kBegin{1h};

/// Two clocks, and the ways between them.
struct Clocks {
  nanoseconds lead = 5s;  // of job time, at kBegin
  nanoseconds drift_per_second = 0ns;
  JobClock clock;

  [[nodiscard]] nanoseconds truth(SessionClock::time_point when) const {
    const std::chrono::duration<double> seconds = when - kBegin;
    const double drift = static_cast<double>(drift_per_second.count()) * seconds.count();
    return lead + (when - kBegin) + nanoseconds(static_cast<std::int64_t>(drift));
  }
  void ask(nanoseconds at, nanoseconds there, nanoseconds back, nanoseconds held = 0ns) {
    const auto sent = kBegin + at;
    clock.add({sent, truth(sent + there), truth(sent + there + held), sent + there + held + back});
  }
  [[nodiscard]] nanoseconds uncertainty(nanoseconds at) const {
    return clock.job_time(kBegin + at)->uncertainty;
  }
  [[nodiscard]] nanoseconds error(nanoseconds at) const {
    return std::chrono::abs(clock.job_time(kBegin + at)->at - truth(kBegin + at));
  }
};

}  // namespace

TEST_CASE("job time is unknown before the first answer") {
  CHECK_FALSE(JobClock().job_time(kBegin).has_value());
}

TEST_CASE("what is counted from the start of a long round is as exact as a clock can tell now") {
  Clocks node;
  node.drift_per_second = 40us;
  constexpr nanoseconds kRound = 10h;
  for (nanoseconds at = 0s; at < kRound; at += 3s) node.ask(at, 100us, 100us);
  const auto origin = node.clock.job_time_of_origin(kBegin, kBegin + kRound);
  CHECK(origin->uncertainty < 1ms);
  const nanoseconds failed = kRound - 500ms;
  CHECK(std::chrono::abs(origin->at + failed - node.truth(kBegin + failed)) <= origin->uncertainty);
  CHECK(node.clock.job_time(kBegin)->uncertainty > 1s);
}

TEST_CASE("job time is known to half a round trip and the drift since then") {
  Clocks node;
  node.ask(0s, 100us, 100us);
  CHECK(node.error(200us) == 0ns);
  CHECK(node.uncertainty(200us) == 100us);
  CHECK(node.uncertainty(0s) == 100us);
  CHECK(node.uncertainty(2s + 200us) == 200us);
  CHECK(node.uncertainty(-2s) == 200us);
}

TEST_CASE("a way that takes longer than the other stays within the uncertainty") {
  Clocks node;
  SECTION("there") {
    node.ask(0s, 50ms, 1ms);
    CHECK(node.error(51ms) == 24'500us);
  }
  SECTION("back") {
    node.ask(0s, 0ms, 51ms);
    CHECK(node.error(51ms) == 25'500us);
  }
  CHECK(node.uncertainty(51ms) == 25'500us);
}

TEST_CASE("the time that the service takes to answer makes nothing less certain") {
  Clocks node;
  node.ask(0s, 100us, 100us, 30ms);
  CHECK(node.uncertainty(30ms + 200us) == 100us);
  CHECK(node.error(30ms + 200us) == 0ns);
}

TEST_CASE("a slow answer among fast ones does not count") {
  Clocks node;
  node.ask(0s, 100us, 100us);
  node.ask(1s, 900ms, 100us);
  CHECK(node.error(2s) == 0ns);
  CHECK(node.uncertainty(2s + 200us) == 200us);
}

TEST_CASE(
    "an old answer gives way where clocks may have drifted further than a newer one is slow") {
  Clocks node;
  node.drift_per_second = 50us;
  node.ask(0s, 100us, 100us);
  node.ask(30s, 300us, 300us);
  CHECK(node.uncertainty(30s + 600us) == 300us);
  CHECK(node.error(30s + 600us) <= 300us);
}

TEST_CASE("more than sixteen answers are not remembered") {
  Clocks node;
  node.ask(0s, 0ns, 0ns);
  for (int i = 0; i < 16; ++i) node.ask(1ms, 1ms, 1ms);
  CHECK(node.uncertainty(3ms) == 1ms);
}

TEST_CASE("a machine that was suspended knows job time, less exactly") {
  Clocks node;
  node.ask(0s, 100us, 100us);
  // One hour: the clocks of both ran on. The answer that waited meanwhile tells little.
  node.ask(1s, 1h, 100us);
  CHECK(node.uncertainty(1h + 200us) == 100us + 50us * 3600);
  CHECK(node.error(1h) == 0ns);
  node.ask(1h + 2s, 100us, 100us);
  CHECK(node.uncertainty(1h + 2s + 200us) == 100us);
}

TEST_CASE("an answer that was quicker than it says is ignored") {
  Clocks node;
  node.clock.add({kBegin, 5s, 6s, kBegin + 1ms});
  node.clock.add({kBegin, 6s, 5s, kBegin + 1ms});
  CHECK_FALSE(node.clock.job_time(kBegin).has_value());
}

TEST_CASE("whatever the delays are, job time is as exact as it says") {
  std::minstd_rand random(7);
  const auto up_to = [&](nanoseconds most) {
    return nanoseconds(static_cast<std::int64_t>(random()) % (most.count() + 1));
  };
  for (int history = 0; history < 200; ++history) {
    Clocks node;
    node.lead = up_to(2s) - 1s;
    node.drift_per_second = up_to(100us) - 50us;
    for (nanoseconds at = 0s; at < 100s; at += 3s) {
      node.ask(at, up_to(20ms), up_to(20ms), up_to(5ms));
      const nanoseconds when = at + up_to(4s) - 1s;
      INFO("history " << history << " at " << at.count());
      CHECK(node.error(when) <= node.uncertainty(when) + 2us);  // the drift within a round trip
    }
  }
}

TEST_CASE("a session learns job time from the welcome, then from keep-alives") {
  test::SessionScript agent;
  CHECK_FALSE(agent.session.job_time_of_origin(agent.now, agent.now).has_value());
  agent.take(rdzv::Connected{});
  agent.now += 2ms;
  proto::Welcome welcome;
  welcome.epoch = 1;
  welcome.lease = 15s;
  welcome.keep_alive_period = 3s;
  welcome.job_time = 10s;
  agent.hear(welcome);
  CHECK(agent.session.job_time_of_origin(agent.now, agent.now)->at == 10s + 1ms);
  CHECK(agent.session.job_time_of_origin(agent.now, agent.now)->uncertainty == 1ms);
  agent.pass(0s);
  const auto* asked = agent.last<proto::KeepAlive>();
  REQUIRE(asked != nullptr);
  agent.now += 200us;
  agent.hear(proto::Alive{asked->number, 10s + 1ms + 100us, 10s + 1ms + 100us, 0});
  CHECK(agent.session.job_time_of_origin(agent.now, agent.now)->uncertainty == 100us);
  SECTION("an answer that was heard before counts once") {
    agent.now += 1s;
    agent.hear(proto::Alive{asked->number, 99s, 99s, 0});
    CHECK(agent.session.job_time_of_origin(agent.now, agent.now)->at == 10s + 1ms + 200us + 1s);
  }
  SECTION("another connection begins anew: the service may have been started again") {
    agent.fail();
    agent.pass(1s);
    agent.take(rdzv::Connected{});
    agent.now += 4ms;
    welcome.resumed = true;
    welcome.job_time = 3s;
    agent.hear(welcome);
    CHECK(agent.session.job_time_of_origin(agent.now, agent.now)->at == 3s + 2ms);
  }
}
