// A TCP forwarder, such as ssh -L or HAProxy: its connections end when it is killed, in order or,
// as the second argument `reset` wants, by a reset. Prints its port.
//
//   forwarder PORT [reset]     to 127.0.0.1:PORT
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/socket.hpp"

namespace {

sockaddr_in loopback(int port) {
  sockaddr_in addr{};
  addr.sin_family = AF_INET;
  addr.sin_port = htons(static_cast<std::uint16_t>(port));
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return addr;
}

void pass_on(int from, int to) {
  char bytes[4096];
  for (ssize_t count = 0; (count = read(from, bytes, sizeof bytes)) > 0;)
    if (write(to, bytes, static_cast<std::size_t>(count)) != count) break;
  shutdown(to, SHUT_WR);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const bool resets = argc > 2 && std::string(argv[2]) == "reset";
  const sockaddr_in target = loopback(std::atoi(argv[1]));
  sockaddr_in own = loopback(0);
  socklen_t length = sizeof own;
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto* const any = reinterpret_cast<sockaddr*>(&own);
  if (bind(listener, any, length) != 0 || listen(listener, 16) != 0 ||
      getsockname(listener, any, &length) != 0)
    return 1;
  std::printf("%d\n", ntohs(own.sin_port));
  std::fflush(stdout);
  for (;;) {
    const int client = accept(listener, nullptr, nullptr);
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client < 0 ||
        connect(server, reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0)
      return 1;
    for (const int fd : {client, server})
      if (resets) ddprun::reset_on_close(fd);
    std::thread(pass_on, client, server).detach();
    std::thread(pass_on, server, client).detach();
  }
}
