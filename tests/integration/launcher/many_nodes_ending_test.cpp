// How a node's connection to the rendezvous ends when one of ddprun's processes is killed there.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <csignal>
#include <optional>
#include <string>

#include "base/unique_handle.hpp"
#include "proto/control_channel.hpp"
#include "tests/integration/launcher/many_nodes.hpp"

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// A rendezvous that exchanges hellos with one agent and then answers nothing.
class SilentService {
 public:
  SilentService() {
    REQUIRE(listen(listener_.socket.get(), 8) == 0);
    limit_waits(listener_.socket.get());
  }
  /// Until the agent has sent its first message.
  void meet() {
    agent_ = UniqueFd(accept(listener_.socket.get(), nullptr, nullptr));
    REQUIRE(agent_);
    limit_waits(agent_.get());
    proto::ControlChannel channel({proto::Side::service, proto::rendezvous_hello(), "", false});
    for (;;) {
      const std::string output = channel.take_output();
      REQUIRE(send(output) == output.size());
      char bytes[4096];
      const ssize_t count = recv(agent_.get(), bytes, sizeof bytes, 0);
      REQUIRE(count > 0);
      channel.append({bytes, static_cast<std::size_t>(count)});
      const auto body = channel.next();
      REQUIRE(body.has_value());
      if (*body) return;
    }
  }
  [[nodiscard]] std::size_t send(const std::string& bytes) const {
    const ssize_t count =
        ::send(agent_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return count < 0 ? 0 : static_cast<std::size_t>(count);
  }
  /// 0: the connection has ended in order. Else the error by which it ended.
  [[nodiscard]] int how_it_ended() const {
    char bytes[4096];
    ssize_t count = 0;
    do count = recv(agent_.get(), bytes, sizeof bytes, 0);
    while (count > 0);
    return count == 0 ? 0 : errno;
  }
  [[nodiscard]] int port() const { return listener_.port; }

 private:
  static void limit_waits(int fd) {
    const timeval limit{20, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }

  const BoundSocket listener_ = bound_socket();
  UniqueFd agent_;
};

}  // namespace

TEST_CASE("a node with a killed ddprun ends its connection in order, whatever it had not read") {
  SilentService service;
  Job job;
  Child node({program("ddprun"), "--nnodes=2", "--rdzv-backend=c10d",
              "--rdzv-endpoint=127.0.0.1:" + std::to_string(service.port()),
              "--rdzv-conf=is_host=0", "true"},
             job.settings());
  service.meet();
  pid_t agent = -1;
  for (const pid_t pid : processes_with(job.mark_entry()))
    if (parent_of(pid) == node.pid()) agent = pid;
  REQUIRE(agent > 0);
  REQUIRE(kill(agent, SIGSTOP) == 0);
  // Most of a frame of the largest size: several times what is read at once, and nothing to act on.
  std::string frame("\0\x0f\xff\xf0{", 5);
  frame.resize(800'000, ' ');
  REQUIRE(service.send(frame) > 300'000);
  const bool is_agent_killed = GENERATE(false, true);
  CAPTURE(is_agent_killed);
  REQUIRE(kill(is_agent_killed ? agent : node.pid(), SIGKILL) == 0);
  static_cast<void>(kill(agent, SIGCONT));
  CHECK(service.how_it_ended() == 0);
  static_cast<void>(node.wait());
  CHECK(eventually([&] { return processes_with(job.mark_entry()).empty(); }));
}
