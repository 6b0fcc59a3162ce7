// A service that is scripted, and a clock that is moved by hand, for tests of an agent's session.
#pragma once

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/client/agent_session.hpp"

namespace ddprun::test {

using namespace std::chrono_literals;
using proto::Finished;
using proto::Join;
using proto::Leave;
using proto::Numbered;
using proto::Resume;
using proto::Round;
using proto::Stop;
using proto::Stopped;
using proto::Welcome;

class SessionScript {
 public:
  explicit SessionScript(rdzv::SessionSettings settings = {.agent = "a", .service = "node1:29400"})
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
      } else if (std::holds_alternative<rdzv::Connect>(action)) {
        ++connects;
      } else if (std::holds_alternative<rdzv::ResetConnection>(action)) {
        ++resets;
      }
    }
  }
  void submit(proto::AgentMessage message,
              std::optional<rdzv::SessionClock::time_point> round_began = std::nullopt) {
    take(rdzv::Submitted{std::move(message), round_began});
  }
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
    welcome.direct = direct;
    welcome.in_agent = in_agent;
    welcome.job_time = job_time;
    welcome.clock = clock;
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
  rdzv::AgentSession session;
  std::vector<proto::ClientMessage> sent;
  std::vector<proto::MembershipMessage> delivered;
  std::vector<std::string> lines;
  std::uint64_t acknowledged = 0;
  bool direct = true;     ///< what the service says of the connection
  bool in_agent = false;  ///< this and the next two as the welcome has them
  std::chrono::nanoseconds job_time{0};
  proto::ClockId clock = 0;
  int connects = 0;
  int resets = 0;
};

}  // namespace ddprun::test
