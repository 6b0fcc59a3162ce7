// How the service sees a connection end when its agent was killed: by the last bytes of the agent,
// whatever the service itself tries to send meanwhile.
#include <sys/socket.h>

#include <atomic>
#include <string>
#include <thread>

#include "proto/frame.hpp"
#include "rendezvous/service/service_server.hpp"
#include "tests/integration/rendezvous/raw_client.hpp"
#include "tests/integration/rendezvous/served_agents.hpp"
#include "tests/integration/rendezvous/service_agent.hpp"
#include "tests/support/child.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using proto::Round;
using test::run_until;
using test::ServedAgents;
using test::ServiceAgent;

namespace {

/// Holds the service's thread fast at its next warning, which a stranger brings about.
class HeldService {
 public:
  [[nodiscard]] rdzv::ServiceServerSettings settings() {
    rdzv::ServiceServerSettings settings;
    settings.on_warning = [this](const std::string&) {
      is_held_ = true;
      while (is_held_ && holds_) std::this_thread::sleep_for(1ms);
      is_held_ = false;
    };
    return settings;
  }
  void hold(std::uint16_t port) {
    holds_ = true;
    test::RawClient stranger(port);
    stranger.send(proto::encode_frame("{no message"));
    REQUIRE(test::eventually([&] { return is_held_.load(); }));
  }
  void let_go() { holds_ = false; }
  ~HeldService() { let_go(); }

 private:
  std::atomic<bool> holds_{false};
  std::atomic<bool> is_held_{false};
};

/// As a killed agent's warden does: in order first, and then the rest of its process ends, with
/// what it has not read.
void end_with_unread_bytes(ServiceAgent& agent) {
  const int socket = agent.link->connection().descriptor();
  char byte = 0;
  REQUIRE(test::eventually([&] { return recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1; }));
  shutdown(socket, SHUT_WR);
  agent.link.reset();
}

}  // namespace

TEST_CASE(
    "an agent that ends in order with unread bytes is lost at once, also while it is sent more") {
  HeldService held;
  ServedAgents served(held.settings());
  boost::asio::io_context of_killed;
  ServiceAgent killed(of_killed, "killed", served.place(), 1h);
  killed.join(1, 2);
  REQUIRE(run_until(of_killed, [&] { return killed.has<proto::Waiting>(); }));
  boost::asio::io_context context;
  ServiceAgent other(context, "other", served.place(), 1h);
  other.join(1, 2);
  REQUIRE(run_until(context, [&] { return other.has<Round>(); }));

  held.hold(served.server->port());
  // By this the service will send `stop` to both, before it looks at the other connection.
  proto::WorkerFailed failed;
  failed.exit = {true, 9, false};
  other.link->send(failed);
  context.restart();
  context.run_for(50ms);
  end_with_unread_bytes(killed);
  held.let_go();

  REQUIRE(run_until(context, [&] { return other.has<proto::Stop>(); }));
  other.link->send(proto::Stopped{0, {}});
  other.join(1, 2);
  REQUIRE(run_until(context, [&] { return other.last<Round>()->number == 1; }));
  CHECK(other.last<Round>()->group_world_size == 1);
}
