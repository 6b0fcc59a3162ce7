#include "bench/store/swarm.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "bench/store/floor.hpp"

namespace ddprun::bench {
namespace {

constexpr std::size_t kBufferBytes = 1024 * 1024;
constexpr std::size_t kEventsMax = 512;
constexpr std::uint32_t kLoopback = 0x7F000001;

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

sockaddr_in ipv4(std::uint32_t address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = htonl(address);
  result.sin_port = htons(port);
  return result;
}

}  // namespace

Swarm::Swarm(const SwarmOptions& options, std::uint32_t first_client)
    : options_(options),
      first_client_(first_client),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      clients_(options.clients),
      buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {}

Swarm::~Swarm() {
  if (!options_.abrupt) return;
  const linger at_once{1, 0};
  for (const Client& client : clients_) {
    if (client.fd) setsockopt(client.fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
}

Played Swarm::play(const Script& script, const PlayLimits& limits) {
  script_ = &script;
  played_ = Played{};
  stopping_ = false;
  running_ = static_cast<std::uint32_t>(clients_.size());
  unanswered_ = 0;
  const std::int64_t begun = now_ns();
  const std::int64_t measured_until =
      limits.measure.count() > 0 ? begun + limits.measure.count() : 0;
  const std::int64_t give_up = begun + limits.give_up.count();
  std::uint32_t started = 0;
  std::array<epoll_event, kEventsMax> events;
  while (running_ > 0 && played_.error.empty()) {
    while (started < clients_.size() && unanswered_ < options_.connecting_max &&
           played_.error.empty()) {
      start(started++);
    }
    if (running_ == 0) break;
    const int count = epoll_wait(epoll_.get(), events.data(), kEventsMax, options_.spin ? 0 : 1000);
    for (int i = 0; i < count && played_.error.empty(); ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      on_event(event.data.u32, event.events);
    }
    const std::int64_t now = now_ns();
    if (measured_until != 0 && now >= measured_until) stopping_ = true;
    if (now >= give_up && running_ > 0) {
      fail(0, fmt::format("not done in time: {} clients still wait", running_));
    }
  }
  played_.seconds = static_cast<double>(now_ns() - begun) / 1e9;
  return std::move(played_);
}

void Swarm::start(std::uint32_t index) {
  Client& client = clients_[index];
  client.running = true;
  client.step = 0;
  client.due = 0;
  if (client.fd) return advance(index);
  client.begun_ns = now_ns();
  ++unanswered_;
  if (connect(index)) advance(index);
}

/// True: connected already, as is usual on loopback.
bool Swarm::connect(std::uint32_t index) {
  Client& client = clients_[index];
  client.fd.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = client.fd.get();
  if (fd < 0) {
    fail(index, "no descriptor left");
    return false;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (options_.source_addresses > 1) {
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    const sockaddr_in from =
        ipv4(kLoopback + (first_client_ + index) % options_.source_addresses, 0);
    if (bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) {
      fail(index, "bind failed");
      return false;
    }
  }
  const sockaddr_in to = ipv4(kLoopback, options_.port);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    watch(index, EPOLL_CTL_ADD, EPOLLIN);
    return true;
  }
  if (errno != EINPROGRESS) {
    fail(index, "connect failed");
    return false;
  }
  client.connecting = true;
  watch(index, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
  return false;
}

/// Takes steps until one of them has a reply to wait for.
void Swarm::advance(std::uint32_t index) {
  Client& client = clients_[index];
  while (true) {
    message_.bytes.clear();
    message_.reply_bytes = 0;
    message_.kind = Message::Kind::answered;
    if (stopping_ || !script_->next(first_client_ + index, client.step, message_)) {
      client.running = false;
      --running_;
      if (!client.answered) {
        client.answered = true;
        --unanswered_;
      }
      return;
    }
    ++client.step;
    client.due = message_.reply_bytes;
    if (!message_.bytes.empty()) {
      ++played_.messages;
      if (options_.floor) put_floor_header(message_);
      client.sent_ns = now_ns();
      if (!send(index)) return;
    }
    if (client.due > 0) return;
  }
}

/// False: not all could be sent; the rest goes out when the socket has room.
bool Swarm::send(std::uint32_t index) {
  Client& client = clients_[index];
  const std::string& bytes = message_.bytes;
  ssize_t sent = ::send(client.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return true;
  if (sent < 0 && errno != EAGAIN) {
    fail(index, "send failed");
    return false;
  }
  client.unsent = std::make_unique<std::string>(bytes.substr(sent < 0 ? 0 : sent));
  watch(index, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
  return false;
}

void Swarm::on_event(std::uint32_t index, std::uint32_t events) {
  Client& client = clients_[index];
  if ((events & EPOLLOUT) != 0 && client.connecting) {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(client.fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      errno = error;
      return fail(index, "connect failed");
    }
    client.connecting = false;
    watch(index, EPOLL_CTL_MOD, EPOLLIN);
    return advance(index);
  }
  if ((events & EPOLLOUT) != 0 && client.unsent) {
    const ssize_t sent =
        ::send(client.fd.get(), client.unsent->data(), client.unsent->size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return fail(index, "send failed");
    if (sent > 0) client.unsent->erase(0, static_cast<std::size_t>(sent));
    if (client.unsent->empty()) {
      client.unsent.reset();
      watch(index, EPOLL_CTL_MOD, EPOLLIN);
      if (client.due == 0) return advance(index);
    }
  }
  if ((events & ~EPOLLOUT) != 0) on_reply(index);
}

void Swarm::on_reply(std::uint32_t index) {
  Client& client = clients_[index];
  const ssize_t length = recv(client.fd.get(), buffer_.get(), kBufferBytes, 0);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (length < 0) return fail(index, "recv failed");
  if (length == 0) {
    errno = 0;
    return fail(index, "the server closed the connection");
  }
  ++played_.receives;
  if (static_cast<std::uint64_t>(length) > client.due) {
    errno = 0;
    return fail(index, fmt::format("the server sent more than the reply: {} bytes instead of {}",
                                   length, client.due));
  }
  client.due -= static_cast<std::uint64_t>(length);
  if (client.due > 0 || client.unsent) return;
  const std::int64_t now = now_ns();
  played_.latency.add(static_cast<std::uint64_t>(now - client.sent_ns));
  if (!client.answered) {
    client.answered = true;
    --unanswered_;
    played_.slowest_connect_ms =
        std::max(played_.slowest_connect_ms, static_cast<double>(now - client.begun_ns) / 1e6);
  }
  advance(index);
}

void Swarm::watch(std::uint32_t index, int operation, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = index;
  epoll_ctl(epoll_.get(), operation, clients_[index].fd.get(), &event);
}

void Swarm::fail(std::uint32_t index, const std::string& what) {
  if (!played_.error.empty()) return;
  played_.error =
      fmt::format("client {} at step {}: {}", first_client_ + index, clients_[index].step, what);
  if (errno != 0) played_.error += fmt::format(" ({})", std::strerror(errno));
}

std::uint64_t Swarm::segments_received() const {
  tcp_info info{};
  socklen_t length = sizeof info;
  getsockopt(clients_.front().fd.get(), IPPROTO_TCP, TCP_INFO, &info, &length);
  return info.tcpi_data_segs_in;
}

SwarmGroup::SwarmGroup(const SwarmOptions& options, unsigned threads) {
  const std::uint32_t groups = std::max(1U, std::min<std::uint32_t>(threads, options.clients));
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < groups; ++i) {
    SwarmOptions part = options;
    part.clients = options.clients / groups + (i < options.clients % groups ? 1 : 0);
    part.connecting_max = std::max(1U, options.connecting_max / groups);
    swarms_.emplace_back(part, first);
    first += part.clients;
  }
}

Played SwarmGroup::play(const Script& script, const PlayLimits& limits) {
  std::vector<Played> parts(swarms_.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < swarms_.size(); ++i) {
    threads.emplace_back([&, i] { parts[i] = swarms_[i].play(script, limits); });
  }
  parts[0] = swarms_[0].play(script, limits);
  for (std::thread& thread : threads) thread.join();
  Played all = std::move(parts[0]);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (all.error.empty()) all.error = parts[i].error;
    all.seconds = std::max(all.seconds, parts[i].seconds);
    all.messages += parts[i].messages;
    all.receives += parts[i].receives;
    all.latency.merge(parts[i].latency);
    all.slowest_connect_ms = std::max(all.slowest_connect_ms, parts[i].slowest_connect_ms);
  }
  return all;
}

}  // namespace ddprun::bench
