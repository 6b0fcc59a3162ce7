// Where an attempt looks for the service, and what answers there mean; and what arrives on its
// channel.
#include "rendezvous/client/service_chooser.hpp"

#include <catch2/catch.hpp>

#include "rendezvous/client/service_channel.hpp"

using namespace ddprun;
using proto::Refused;
using rdzv::ServiceChannel;
using rdzv::ServiceChooser;
using Next = ServiceChooser::Next;
using Ports = std::vector<std::uint16_t>;

namespace {

const Refused kOtherJob{Refused::Why::other_job, "it runs another job"};

ServiceChooser with_ports(Ports more) {
  ServiceChooser chooser({.first = {"node1", 29400}, .more_ports = std::move(more)});
  chooser.begin_attempt();
  chooser.begin_hosts();
  return chooser;
}

ServiceChooser with_hosts(bool follows_standby = true) {
  ServiceChooser chooser(
      {.first = {"a", 1}, .more_hosts = {{"b", 2}, {"c", 3}}, .follows_standby = follows_standby});
  chooser.begin_attempt();
  chooser.begin_hosts();
  return chooser;
}

Refused standby_for(std::string place) {
  Refused refused{Refused::Why::elsewhere, "a standby"};
  refused.place = std::move(place);
  return refused;
}

proto::Welcome welcome(bool in_agent) {
  proto::Welcome welcome;
  welcome.in_agent = in_agent;
  return welcome;
}

proto::ControlChannel::Settings settings_of(proto::Side side) {
  proto::ControlChannel::Settings settings;
  settings.side = side;
  settings.hello = proto::rendezvous_hello("train-7");
  return settings;
}

}  // namespace

TEST_CASE(
    "service chooser: a port of another job is tried last until a service has welcomed the node") {
  ServiceChooser chooser = with_ports({29401, 29402});
  CHECK(chooser.ports() == Ports{29400, 29401, 29402});
  CHECK(chooser.refuse(kOtherJob, 29400) == Next::fails);
  CHECK(chooser.ports() == Ports{29401, 29402, 29400});
  CHECK(chooser.meet_stranger(29401) == Next::fails);
  CHECK(chooser.ports() == Ports{29402, 29400, 29401});
  CHECK(chooser.welcome(welcome(true), "10.0.0.1", 29402));
  CHECK(chooser.ports() == Ports{29402});
  CHECK(chooser.refuse(kOtherJob, 29402) == Next::counts);
  CHECK(chooser.meet_stranger(29402) == Next::counts);
}

TEST_CASE("service chooser: an rdzvd serves every job, so the nodes may be at another port") {
  ServiceChooser several = with_ports({29401});
  CHECK_FALSE(several.welcome(welcome(false), "10.0.0.1", 29400));
  CHECK(several.ports() == Ports{29401, 29400});
  ServiceChooser one = with_ports({});
  CHECK(one.welcome(welcome(false), "10.0.0.1", 29400));
}

TEST_CASE("service chooser: only all hosts together refuse a node, and their reason is kept") {
  ServiceChooser chooser = with_hosts();
  CHECK(chooser.refuse(kOtherJob, 1) == Next::next_host);
  CHECK(chooser.why_failed("no answer") == "a:1: it runs another job");
  REQUIRE(chooser.go_on());
  CHECK(chooser.refuse(kOtherJob, 2) == Next::next_host);
  REQUIRE(chooser.go_on());
  CHECK(chooser.refuse(kOtherJob, 3) == Next::counts);
  chooser.begin_attempt();
  CHECK(chooser.why_failed("no answer") == "no answer");
}

TEST_CASE("service chooser: a standby leads to the host that has the jobs, where it is followed") {
  ServiceChooser chooser = with_hosts();
  CHECK(chooser.refuse(standby_for("c:3"), 1) == Next::fails);
  CHECK(chooser.host() == Endpoint("c", 3));
  ServiceChooser observer = with_hosts(false);
  CHECK(observer.refuse(standby_for("c:3"), 1) == Next::counts);
  CHECK(observer.host() == Endpoint("a", 1));
}

TEST_CASE("service chooser: a stranger at one of several hosts hides none of the others") {
  ServiceChooser chooser = with_hosts();
  CHECK(chooser.meet_stranger(1) == Next::next_host);
  REQUIRE(chooser.go_on());
  REQUIRE(chooser.go_on());
  CHECK(chooser.meet_stranger(3) == Next::counts);
  CHECK_FALSE(chooser.go_on());
}

TEST_CASE("service chooser: a place that was named may be another job's by now") {
  ServiceChooser chooser({.first = {"a", 1}, .has_finder = true});
  chooser.begin_attempt();
  chooser.lead_to({"b", 2});
  CHECK(chooser.host() == Endpoint("b", 2));
  CHECK(chooser.refuse(kOtherJob, 2) == Next::fails);
  REQUIRE(chooser.welcome(welcome(true), "10.0.0.2", 2));
  CHECK(chooser.refuse(kOtherJob, 2) == Next::counts);
}

TEST_CASE("service chooser: after a welcome a refusal proves something at that address alone") {
  ServiceChooser chooser = with_ports({});
  CHECK(chooser.proves_absence("10.0.0.9"));
  REQUIRE(chooser.welcome(welcome(true), "10.0.0.1", 29400));
  CHECK(chooser.proves_absence("10.0.0.1"));
  CHECK_FALSE(chooser.proves_absence("10.0.0.9"));
}

TEST_CASE("service channel: it opens, then gives each message, and is broken once") {
  ServiceChannel client(settings_of(proto::Side::client));
  proto::ControlChannel service(settings_of(proto::Side::service));
  service.append(client.take_output());
  REQUIRE(service.next().has_value());
  REQUIRE(service.send(proto::encode(proto::ServiceMessage(proto::Alive{}))));
  client.append(service.take_output());
  auto step = client.next();
  REQUIRE(step.has_value());
  CHECK(std::holds_alternative<ServiceChannel::Opened>(*step));
  step = client.next();
  REQUIRE(step.has_value());
  CHECK(std::holds_alternative<proto::ServiceMessage>(*step));
  CHECK_FALSE(client.next().has_value());
  client.append(std::string(64, '\xff'));
  step = client.next();
  REQUIRE(step.has_value());
  REQUIRE(std::holds_alternative<ServiceChannel::Broken>(*step));
  CHECK(std::get<ServiceChannel::Broken>(*step).was_open);
  CHECK_FALSE(client.next().has_value());
}
