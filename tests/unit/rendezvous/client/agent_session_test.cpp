// An agent's session with the rendezvous service: what is sent, sent again and delivered, and when
// the agent's workers must end.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rendezvous/client/agent_session.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using proto::Finished;
using proto::Join;
using proto::Numbered;
using proto::Resume;
using proto::Round;
using proto::Stop;
using proto::Stopped;
using proto::Welcome;
using rdzv::AgentSession;
using rdzv::Connect;
using rdzv::ResetConnection;

namespace {

class Script {
 public:
  explicit Script(rdzv::SessionSettings settings = {.agent = "a", .service = "node1:29400"})
      : session(settings, now) {
    pass(0s);
  }

  void take(rdzv::SessionEvent event) {
    for (rdzv::SessionAction& action : session.on(std::move(event), now)) {
      if (auto* send = std::get_if<rdzv::SendToService>(&action)) {
        sent.push_back(std::move(send->message));
      } else if (auto* deliver = std::get_if<rdzv::Deliver>(&action)) {
        delivered.push_back(std::move(deliver->message));
      } else if (auto* tell = std::get_if<rdzv::Tell>(&action)) {
        lines.push_back(std::move(tell->line));
      } else if (std::holds_alternative<Connect>(action)) {
        ++connects;
      } else if (std::holds_alternative<ResetConnection>(action)) {
        ++resets;
      }
    }
  }
  void submit(proto::AgentMessage message) { take(rdzv::Submitted{std::move(message)}); }
  void hear(proto::ServiceMessage message) { take(rdzv::ServiceSaid{std::move(message)}); }
  void fail(bool refused = false, const std::string& reason = "Connection reset by peer") {
    take(rdzv::ConnectionFailed{refused, reason});
  }
  /// The service answers every keep-alive, or none.
  void pass(std::chrono::nanoseconds time, bool answers = false) {
    const auto end = now + time;
    while (session.deadline() && *session.deadline() <= end) {
      now = std::max(now, *session.deadline());
      take(rdzv::SessionTimePassed{});
      const auto* asked = last<proto::KeepAlive>();
      if (answers && asked != nullptr) hear(proto::Alive{asked->number, {}, {}, acknowledged});
    }
    now = end;
  }
  void welcome(bool resumed, std::uint64_t known = 0, proto::Epoch epoch = 1) {
    acknowledged = known;
    Welcome welcome;
    welcome.epoch = epoch;
    welcome.resumed = resumed;
    welcome.acknowledged = known;
    welcome.lease = 15s;
    welcome.keep_alive_period = 3s;
    hear(welcome);
  }
  void start_round(proto::RoundNumber number = 0, proto::Epoch epoch = 1) {
    Round round;
    round.number = number;
    round.epoch = epoch;
    round.restart_count = static_cast<int>(number);
    hear(round);
  }
  /// In a round.
  void begin() {
    take(rdzv::Connected{});
    welcome(false);
    submit(Join{});
    acknowledged = 1;
    start_round();
  }
  template <class Message>
  const Message* last() const {
    for (auto message = sent.rbegin(); message != sent.rend(); ++message)
      if (const auto* found = std::get_if<Message>(&*message)) return found;
    return nullptr;
  }
  template <class Message>
  int count() const {
    int found = 0;
    for (const auto& message : delivered) found += std::holds_alternative<Message>(message) ? 1 : 0;
    return found;
  }

  rdzv::SessionClock::time_point now{1h};
  AgentSession session;
  std::vector<proto::ClientMessage> sent;
  std::vector<proto::MembershipMessage> delivered;
  std::vector<std::string> lines;
  std::uint64_t acknowledged = 0;
  int connects = 0;
  int resets = 0;
};

}  // namespace

TEST_CASE("a session begins with resume, and sends what the agent says in order") {
  Script agent;
  CHECK(agent.connects == 1);
  agent.submit(Join{});
  CHECK(agent.sent.empty());
  agent.take(rdzv::Connected{});
  const auto* resume = agent.last<Resume>();
  REQUIRE(resume != nullptr);
  CHECK(resume->agent == "a");
  CHECK_FALSE(resume->epoch.has_value());
  CHECK(resume->replaces.empty());
  CHECK(resume->lease == 15s);
  CHECK(agent.sent.size() == 1);
  agent.welcome(false);
  REQUIRE(agent.last<Numbered>() != nullptr);
  CHECK(agent.last<Numbered>()->seq == 1);
  agent.start_round();
  CHECK(agent.count<Round>() == 1);
  agent.submit(proto::Started{0});
  CHECK(agent.last<Numbered>()->seq == 2);
}

TEST_CASE("on a new connection only what was not acknowledged is sent again") {
  Script agent;
  agent.begin();
  agent.submit(proto::Started{0});
  agent.submit(proto::WorkerFailed{});
  agent.fail();
  agent.submit(Stopped{0, {}});
  agent.pass(100ms);
  agent.take(rdzv::Connected{});
  REQUIRE(agent.last<Resume>() != nullptr);
  CHECK(agent.last<Resume>()->epoch == 1u);
  CHECK(agent.last<Resume>()->next_seq == 5);
  agent.sent.clear();
  agent.welcome(true, 2);
  REQUIRE(agent.sent.size() == 2);
  CHECK(std::get<Numbered>(agent.sent[0]).seq == 3);
  CHECK(std::get<Numbered>(agent.sent[1]).seq == 4);
}

TEST_CASE("what the service says again is delivered once") {
  Script agent;
  agent.begin();
  agent.start_round(0);
  CHECK(agent.count<Round>() == 1);
  agent.hear(Stop{0, "b failed"});
  agent.hear(Stop{0, "b failed"});
  CHECK(agent.count<Stop>() == 1);
  agent.submit(Stopped{0, {}});
  // The service had not read that when it said this.
  agent.hear(Stop{0, "b failed"});
  agent.start_round(0);
  CHECK(agent.count<Stop>() == 1);
  CHECK(agent.count<Round>() == 1);
  agent.start_round(1);
  CHECK(agent.count<Round>() == 2);
}

TEST_CASE("a round that came and went while the agent was away is answered, and joined after") {
  Script agent;
  agent.take(rdzv::Connected{});
  agent.welcome(false);
  agent.submit(Join{});
  agent.fail();
  agent.pass(1s);
  agent.take(rdzv::Connected{});
  agent.welcome(true, 1);
  agent.sent.clear();
  agent.hear(Stop{0, "b joined"});
  agent.hear(Stop{0, "b joined"});
  CHECK(agent.delivered.empty());
  REQUIRE(agent.sent.size() == 2);
  CHECK(std::holds_alternative<Stopped>(std::get<Numbered>(agent.sent[0]).message));
  CHECK(std::holds_alternative<Join>(std::get<Numbered>(agent.sent[1]).message));
  agent.start_round(1);
  CHECK(agent.count<Round>() == 1);
}

TEST_CASE("a join tells of the last round") {
  Script agent;
  agent.begin();
  agent.submit(Stopped{0, {}});
  agent.submit(Join{});
  const auto& join = std::get<Join>(agent.last<Numbered>()->message);
  REQUIRE(join.was_in.has_value());
  CHECK(join.was_in->epoch == 1);
  CHECK(join.was_in->number == 0);
}

TEST_CASE("keep-alives that are answered keep the lease") {
  Script agent;
  agent.begin();
  agent.pass(10min, true);
  CHECK(agent.count<Stop>() == 0);
  CHECK(agent.connects == 1);
  CHECK(agent.lines.empty());
}

TEST_CASE("without an answer for a lease the workers are killed, once") {
  Script agent;
  agent.begin();
  const auto began = agent.now;
  SECTION("the connection is open and silent") { agent.pass(14900ms); }
  SECTION("the connection is reset, and attempts time out") {
    agent.fail();
    agent.pass(14900ms);
  }
  CHECK(agent.count<Stop>() == 0);
  agent.pass(1s);
  REQUIRE(agent.count<Stop>() == 1);
  const auto& stop = std::get<Stop>(agent.delivered.back());
  CHECK(stop.kill);
  CHECK(stop.round == 0);
  CHECK(stop.reason == "the rendezvous at node1:29400 has not answered for 15 s");
  CHECK(agent.session.lease_end() == began + 15s);
  agent.pass(1min);
  CHECK(agent.count<Stop>() == 1);
}

TEST_CASE("after that the agent begins a new session, which replaces the old one") {
  Script agent;
  agent.begin();
  agent.fail();
  agent.pass(16s);
  REQUIRE(agent.count<Stop>() == 1);
  // What the node says of its killed round is of no interest any more.
  agent.submit(proto::WorkerFailed{});
  agent.submit(Stopped{0, {}});
  agent.submit(Join{});
  agent.pass(10s);
  agent.sent.clear();
  agent.take(rdzv::Connected{});
  REQUIRE(agent.last<Resume>() != nullptr);
  CHECK(agent.last<Resume>()->agent == "a/2");
  CHECK(agent.last<Resume>()->replaces == "a");
  CHECK_FALSE(agent.last<Resume>()->epoch.has_value());
  agent.welcome(false);
  REQUIRE(agent.sent.size() == 2);
  const auto& first = std::get<Numbered>(agent.sent[1]);
  CHECK(first.seq == 1);
  REQUIRE(std::holds_alternative<Join>(first.message));
  CHECK(std::get<Join>(first.message).was_in.has_value());
  agent.start_round(1);
  CHECK(agent.count<Round>() == 2);
}

TEST_CASE("a service that refuses connections renews the lease, for the lost time-out") {
  Script agent;
  agent.begin();
  const auto refuse_for = [&](std::chrono::nanoseconds time) {
    for (const auto end = agent.now + time; agent.now < end;) {
      agent.pass(500ms);
      agent.fail(true, "Connection refused");
    }
  };
  agent.fail();
  refuse_for(290s);
  CHECK(agent.count<Stop>() == 0);
  CHECK(agent.count<Finished>() == 0);
  REQUIRE(agent.lines.size() == 1);
  CHECK(
      agent.lines[0].starts_with("the rendezvous at node1:29400 does not answer (Connection "
                                 "refused); the workers go on, for"));
  SECTION("it comes back") {
    agent.pass(1s);
    agent.take(rdzv::Connected{});
    agent.welcome(true, 1);
    CHECK(agent.lines.back() == "the rendezvous at node1:29400 answers");
    agent.pass(1min, true);
    CHECK(agent.count<Stop>() == 0);
  }
  SECTION("it does not") {
    refuse_for(15s);
    REQUIRE(agent.count<Finished>() == 1);
    const auto& finished = std::get<Finished>(agent.delivered.back());
    CHECK(finished.outcome == Finished::Outcome::failed);
    CHECK(finished.reason ==
          "the rendezvous at node1:29400 has not answered for 300 s: Connection refused");
    CHECK(agent.session.is_over());
    CHECK_FALSE(agent.session.deadline().has_value());
  }
}

TEST_CASE("a node whose workers have succeeded is not stopped by a silent service") {
  Script agent;
  agent.begin();
  agent.submit(proto::WorkersDone{0});
  agent.fail();
  agent.pass(299s);
  CHECK(agent.count<Stop>() == 0);
  agent.pass(10s);
  REQUIRE(agent.count<Finished>() == 1);
  CHECK(std::get<Finished>(agent.delivered.back()).reason ==
        "the rendezvous at node1:29400 has not answered for 300 s: no answer; this node's workers "
        "succeeded, the job's outcome is unknown");
}

TEST_CASE("a service that does not know the session: kill, and begin another") {
  Script agent;
  agent.begin();
  agent.fail();
  agent.pass(1s);
  agent.take(rdzv::Connected{});
  agent.sent.clear();
  agent.welcome(false, 0, 9);
  REQUIRE(agent.count<Stop>() == 1);
  CHECK(std::get<Stop>(agent.delivered.back()).kill);
  CHECK(agent.sent.empty());
  SECTION("on the same connection") {}
  SECTION("although the connection fails meanwhile") {
    agent.fail();
    agent.pass(2s);
    agent.take(rdzv::Connected{});
    agent.welcome(false, 0, 9);
    CHECK(agent.count<Stop>() == 1);
  }
  agent.sent.clear();
  agent.submit(Stopped{0, {}});
  REQUIRE(agent.last<Resume>() != nullptr);
  CHECK(agent.last<Resume>()->agent == "a/2");
  CHECK(agent.session.own_id() == "a/2");
  agent.submit(Join{});
  agent.welcome(false, 0, 9);
  REQUIRE(agent.last<Numbered>() != nullptr);
  CHECK(agent.last<Numbered>()->seq == 1);
  agent.start_round(1, 10);
  CHECK(agent.count<Round>() == 2);
}

TEST_CASE("an agent that waits for a round joins again by itself") {
  Script agent;
  agent.take(rdzv::Connected{});
  agent.welcome(false);
  agent.submit(Join{});
  agent.fail();
  agent.pass(1s);
  agent.take(rdzv::Connected{});
  agent.sent.clear();
  agent.welcome(false);
  CHECK(agent.count<Stop>() == 0);
  REQUIRE(agent.last<Resume>() != nullptr);
  CHECK(agent.last<Resume>()->agent == "a/2");
  agent.welcome(false);
  REQUIRE(agent.last<Numbered>() != nullptr);
  CHECK(std::holds_alternative<Join>(agent.last<Numbered>()->message));
}

TEST_CASE("a round that was read under a lease that is over starts nothing") {
  Script agent;
  agent.take(rdzv::Connected{});
  agent.welcome(false);
  agent.submit(Join{});
  // As after SIGSTOP: nothing ran, and the round was in the socket all the time.
  agent.now += 15s;
  agent.start_round();
  CHECK(agent.count<Round>() == 0);
  CHECK(agent.resets == 1);
}

TEST_CASE("no service at all ends the job after the join time-out") {
  Script agent;
  for (int i = 0; i < 5000 && !agent.session.is_over(); ++i) {
    agent.pass(200ms);
    agent.fail(true, "Connection refused");
  }
  REQUIRE(agent.count<Finished>() == 1);
  CHECK(std::get<Finished>(agent.delivered.back()).reason ==
        "no rendezvous answered at node1:29400 for 600 s: Connection refused");
  REQUIRE(agent.lines.size() == 1);
  CHECK(agent.lines[0] ==
        "the rendezvous at node1:29400 does not answer (Connection refused); trying for 598 s");
  CHECK(agent.connects > 600);
}

TEST_CASE("a refusal ends the job at once, but for a limit, which may pass") {
  Script agent;
  agent.take(rdzv::Connected{});
  SECTION("wrong secret") {
    agent.hear(proto::Refused{proto::Refused::Why::wrong_secret, "the secret differs"});
    REQUIRE(agent.count<Finished>() == 1);
    CHECK(std::get<Finished>(agent.delivered.back()).reason ==
          "the rendezvous at node1:29400 refuses this node: the secret differs");
  }
  SECTION("limit") {
    agent.hear(proto::Refused{proto::Refused::Why::limit, "too many"});
    CHECK(agent.count<Finished>() == 0);
    agent.pass(1s);
    CHECK(agent.connects == 2);
  }
}

TEST_CASE("the outcome is acknowledged, and is the last word") {
  Script agent;
  agent.begin();
  Finished finished;
  finished.reason = "all workers ended with exit code 0";
  agent.hear(finished);
  CHECK(agent.last<proto::Bye>() != nullptr);
  CHECK(agent.session.is_over());
  agent.hear(finished);
  agent.fail();
  CHECK(agent.count<Finished>() == 1);
}

TEST_CASE("a node that leaves while it is fenced leaves in its new session") {
  Script agent;
  agent.begin();
  agent.fail();
  agent.pass(16s);
  agent.submit(proto::Leave{15, ""});
  agent.submit(Stopped{0, {}});
  agent.pass(6s);
  agent.take(rdzv::Connected{});
  agent.welcome(false);
  REQUIRE(agent.last<Numbered>() != nullptr);
  CHECK(std::holds_alternative<proto::Leave>(agent.last<Numbered>()->message));
}
