// How a node's connection to the rendezvous ends when its ddprun is killed.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <csignal>

#include "base/unique_handle.hpp"
#include "tests/integration/launcher/many_nodes.hpp"

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// A rendezvous that never answers.
struct SilentService {
  SilentService() : listener(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in addr{};
    addr.sin_family = AF_INET;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof addr;
    REQUIRE(bind(listener.get(), reinterpret_cast<sockaddr*>(&addr), sizeof addr) == 0);
    REQUIRE(listen(listener.get(), 8) == 0);
    REQUIRE(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&addr), &length) == 0);
    port = ntohs(addr.sin_port);
  }
  /// The next connection, with a limit on each wait for its bytes.
  UniqueFd accept_one() const {
    UniqueFd accepted(accept(listener.get(), nullptr, nullptr));
    const timeval limit{20, 0};
    setsockopt(accepted.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return accepted;
  }
  UniqueFd listener;
  int port = 0;
};

}  // namespace

TEST_CASE("a node with a killed ddprun ends its connection in order, whatever it had not read") {
  SilentService service;
  Job job;
  Child node({program("ddprun"), "--nnodes=2", "--rdzv-backend=c10d",
              "--rdzv-endpoint=127.0.0.1:" + std::to_string(service.port), "--rdzv-conf=is_host=0",
              "true"},
             job.settings());
  const UniqueFd connection = service.accept_one();
  char byte = 0;
  REQUIRE(recv(connection.get(), &byte, 1, 0) == 1);
  pid_t agent = -1;
  for (const pid_t pid : processes_with(job.mark_entry()))
    if (parent_of(pid) == node.pid()) agent = pid;
  REQUIRE(agent > 0);
  kill(agent, SIGSTOP);
  // The beginning of a large frame: more than is read at once, and nothing to act on.
  std::string frame("\0\x0f\xff\x00{", 5);
  frame.resize(400'000, ' ');
  REQUIRE(send(connection.get(), frame.data(), frame.size(), MSG_DONTWAIT) > 200'000);
  kill(node.pid(), SIGKILL);
  kill(agent, SIGCONT);
  ssize_t count = 0;
  do count = recv(connection.get(), &byte, 1, 0);
  while (count > 0);
  CHECK(count == 0);
}
