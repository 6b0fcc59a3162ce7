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

namespace {

/// What an agent tells of when its round began.
class TellingAgent : public test::SessionScript {
 public:
  /// In a round, after so long on the way for the service's first answer.
  explicit TellingAgent(nanoseconds way) {
    job_time = 10s;
    clock = 7;
    take(rdzv::Connected{});
    now += way;
    welcome(false);
    submit(proto::Join{});
    start_round();
    began = now;
  }
  void fail_worker() { submit(proto::WorkerFailed{}, began); }
  void stop() { submit(proto::Stopped{0, {}}, began); }
  /// Another connection, with the same way for its first answer as the first.
  void reconnect(nanoseconds way, std::uint64_t known) {
    fail();
    pass(1s);
    take(rdzv::Connected{});
    sent.clear();
    now += way;
    welcome(true, known);
  }
  /// By the newest message of a kind.
  template <class Message>
  [[nodiscard]] proto::JobTime told() const {
    for (auto message = sent.rbegin(); message != sent.rend(); ++message) {
      const auto* numbered = std::get_if<proto::Numbered>(&*message);
      const auto* found = numbered != nullptr ? std::get_if<Message>(&numbered->message) : nullptr;
      if (found != nullptr && found->round_began) return *found->round_began;
    }
    FAIL("it has told no time");
    return {};
  }
  template <class Message>
  [[nodiscard]] int times_told() const {
    int found = 0;
    for (const auto& message : sent) {
      const auto* numbered = std::get_if<proto::Numbered>(&message);
      found += numbered != nullptr && std::holds_alternative<Message>(numbered->message) ? 1 : 0;
    }
    return found;
  }

  SessionClock::time_point began;
};

}  // namespace

TEST_CASE("a session learns job time from the welcome, then from keep-alives") {
  TellingAgent agent(2ms);
  agent.now += 5s;
  agent.fail_worker();
  CHECK(agent.told<proto::WorkerFailed>().at == 10s + 1ms);
  CHECK(agent.told<proto::WorkerFailed>().uncertainty == 1ms + 250us);
  CHECK(agent.told<proto::WorkerFailed>().clock == 7);
  agent.pass(0s);
  REQUIRE(agent.last<proto::KeepAlive>() != nullptr);
  const std::uint64_t asked = agent.last<proto::KeepAlive>()->number;
  agent.now += 200us;
  agent.hear(proto::Alive{asked, 15s + 1ms + 100us, 15s + 1ms + 100us, 0});
  agent.stop();
  CHECK(agent.told<proto::Stopped>().at == 10s + 1ms);
  CHECK(agent.told<proto::Stopped>().uncertainty == 100us);
  SECTION("an answer that was heard before counts once") {
    agent.hear(proto::Alive{asked, 99s, 99s, 0});
    agent.stop();
    CHECK(agent.told<proto::Stopped>().at == 10s + 1ms);
  }
}

TEST_CASE("what a service has not heard is told by the clock of the one that hears it") {
  TellingAgent agent(2ms);
  agent.fail_worker();
  const auto ago = agent.now - agent.began;
  agent.job_time = 3s;  // it counts otherwise, or was started again
  SECTION("it has another clock") { agent.clock = 8; }
  SECTION("its clock is not told") { agent.clock = 0; }
  agent.reconnect(4ms, 1);
  CHECK(agent.times_told<proto::WorkerFailed>() == 1);
  CHECK(agent.told<proto::WorkerFailed>().at == 3s + 2ms - ago - (agent.now - agent.began - ago));
  CHECK(agent.told<proto::WorkerFailed>().uncertainty == 2ms);
  CHECK(agent.told<proto::WorkerFailed>().clock == agent.clock);
  CHECK(agent.times_told<proto::Stopped>() == 0);
}

TEST_CASE("a service with another clock is told again when the round began that has stopped") {
  TellingAgent agent(2ms);
  agent.fail_worker();
  agent.stop();
  SECTION("the one before has heard it") {
    agent.clock = 8;
    agent.job_time = 60s;
    agent.reconnect(4ms, 3);
    CHECK(agent.times_told<proto::WorkerFailed>() == 0);
    REQUIRE(agent.times_told<proto::Stopped>() == 1);
    CHECK(agent.told<proto::Stopped>().at == 60s + 2ms - (agent.now - agent.began));
    CHECK(agent.told<proto::Stopped>().clock == 8);
    SECTION("and again, by each clock") {
      agent.clock = 9;
      agent.reconnect(4ms, 4);
      CHECK(agent.told<proto::Stopped>().clock == 9);
    }
    SECTION("but not of a round before the last one") {
      agent.submit(proto::Join{});
      agent.start_round(1);
      agent.clock = 9;
      agent.reconnect(4ms, 5);
      CHECK(agent.times_told<proto::Stopped>() == 0);
    }
  }
  SECTION("the one before has not heard it") {
    agent.clock = 8;
    agent.reconnect(4ms, 2);
    CHECK(agent.times_told<proto::Stopped>() == 1);
    CHECK(agent.told<proto::Stopped>().clock == 8);
  }
  SECTION("it has the same clock") {
    agent.reconnect(4ms, 3);
    CHECK(agent.times_told<proto::Stopped>() == 0);
  }
}
