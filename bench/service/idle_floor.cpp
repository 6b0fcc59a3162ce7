#include "bench/service/idle_floor.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/unique_handle.hpp"
#include "bench/store/floor.hpp"
#include "bench/store/server.hpp"
#include "bench/support/measure.hpp"

namespace ddprun::bench {

namespace {

// Frames of a keep_alive and of its alive.
constexpr std::size_t kRequestBytes = 55;
constexpr std::size_t kReplyBytes = 110;
constexpr std::uint32_t kClientsOfAddress = 10'000;

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(fmt::format("idle floor: {}: {}", what, std::strerror(errno)));
}

sockaddr_in loopback(std::uint32_t number, std::uint16_t port) {
  sockaddr_in addr{};
  addr.sin_family = AF_INET;
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK + number);
  addr.sin_port = htons(port);
  return addr;
}

UniqueFd connect_to(std::uint16_t port, std::uint32_t client) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) fail("socket");
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  const sockaddr_in from = loopback(client / kClientsOfAddress, 0);
  const sockaddr_in to = loopback(0, port);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) fail("bind");
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) fail("connect");
  return fd;
}

/// Reads what replies are there; waits for the first one no longer than `wait`.
std::int64_t take_replies(int epoll, std::chrono::milliseconds wait) {
  std::array<epoll_event, 256> events;
  const int count = epoll_wait(epoll, events.data(), static_cast<int>(events.size()),
                               static_cast<int>(wait.count()));
  std::int64_t bytes = 0;
  std::array<char, 1024> buffer;
  for (int i = 0; i < count; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    const ssize_t length = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (length <= 0) fail("a client lost its connection");
    bytes += length;
  }
  return bytes;
}

}  // namespace

double idle_floor(const LifeSettings& settings, double messages_per_second) {
  using namespace std::chrono_literals;
  const Server server(
      ServerKind{"floor", Speech::floor, {own_folder() + "/bench_store", "--serve=floor"}},
      Server::Surroundings{settings.server_cpu, ""});
  const UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  std::vector<UniqueFd> clients;
  for (std::uint32_t client = 0; client < settings.agents; ++client) {
    clients.push_back(connect_to(server.port(), client));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = clients.back().get();
    epoll_ctl(epoll.get(), EPOLL_CTL_ADD, clients.back().get(), &event);
  }
  Message message{std::string(kRequestBytes, '.'), kReplyBytes};
  put_floor_header(message);
  server.settle();
  const double before = server.cpu_seconds();
  const auto begun = Clock::now();
  const auto spacing =
      std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 / messages_per_second));
  std::int64_t sent = 0;
  std::int64_t received = 0;
  while (Clock::now() - begun < settings.idle) {
    const auto left = begun + spacing * sent - Clock::now();
    if (left > 0ns) {
      received += take_replies(epoll.get(), std::chrono::ceil<std::chrono::milliseconds>(left));
      continue;
    }
    const int fd = clients[static_cast<std::size_t>(sent) % clients.size()].get();
    if (send(fd, message.bytes.data(), message.bytes.size(), MSG_NOSIGNAL) < 0) fail("send");
    ++sent;
  }
  while (received < sent * std::int64_t{kReplyBytes}) {
    const std::int64_t more = take_replies(epoll.get(), 5s);
    if (more == 0) throw std::runtime_error("idle floor: replies are missing");
    received += more;
  }
  return (server.cpu_seconds() - before) /
         std::chrono::duration<double>(Clock::now() - begun).count();
}

}  // namespace ddprun::bench
