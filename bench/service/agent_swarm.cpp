#include "bench/service/agent_swarm.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "bench/support/measure.hpp"

namespace ddprun::bench {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t kBufferBytes = 256 * 1024;
constexpr std::size_t kEventsMax = 512;
constexpr std::uint32_t kLoopback = 0x7F000001;

sockaddr_in ipv4(std::uint32_t address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = htonl(address);
  result.sin_port = htons(port);
  return result;
}

[[noreturn]] void fail(std::uint32_t index, const std::string& what) {
  throw std::runtime_error(fmt::format("agent {}: {}", index, what));
}
[[noreturn]] void fail_errno(std::uint32_t index, const char* what) {
  fail(index, fmt::format("{} ({})", what, std::strerror(errno)));
}

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

}  // namespace

AgentSwarm::AgentSwarm(const AgentSwarmOptions& options)
    : options_(options),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {
  job_.nodes = static_cast<int>(options.agents);
  job_.secret = options.secret;
  job_.encrypter = options.encrypter;
  clients_.reserve(options.agents);
  for (std::uint32_t i = 0; i < options.agents; ++i) clients_.emplace_back(SimAgent(job_, i));
}

// ---- what they do together ----

double AgentSwarm::form() {
  const double seconds =
      play([](const Client& client) { return client.agent.round().has_value(); });
  check_ranks(0);
  return seconds;
}

double AgentSwarm::form_again() {
  const std::uint32_t index = options_.agents / 2;
  clients_[index].agent.fail_worker();
  flush(index);
  const double seconds =
      play([](const Client& client) { return client.agent.round()->number == 1; });
  check_ranks(1);
  if (clients_.front().agent.round()->restart_count != 1) fail(0, "the failure was not counted");
  return seconds;
}

double AgentSwarm::end() {
  for (Client& client : clients_) client.agent.finish_workers();
  const auto begun = Clock::now();
  for (std::uint32_t i = 0; i < clients_.size(); ++i) flush(i);
  play([](const Client& client) { return !client.fd; });
  for (std::uint32_t i = 0; i < clients_.size(); ++i) {
    const auto& finished = clients_[i].agent.finished();
    if (!finished || finished->outcome != proto::Finished::Outcome::succeeded)
      fail(i, "the job did not succeed");
  }
  return seconds_since(begun);
}

std::int64_t AgentSwarm::keep_alive_for(std::chrono::nanoseconds time) {
  const auto begun = Clock::now();
  const auto spacing = keep_alive_period() / options_.agents;
  std::int64_t sent = 0;
  while (Clock::now() - begun < time) {
    const auto index = static_cast<std::uint32_t>(sent) % options_.agents;
    const std::chrono::nanoseconds left = begun + spacing * sent - Clock::now();
    if (left > 0ns) {
      poll(left);
      continue;
    }
    clients_[index].agent.keep_alive();
    flush(index);
    ++sent;
  }
  play([](const Client& client) { return client.agent.unanswered_keep_alives() == 0; });
  return sent;
}

std::chrono::nanoseconds AgentSwarm::keep_alive_period() const {
  return clients_.front().agent.welcome()->keep_alive_period;
}

void AgentSwarm::check_ranks(proto::RoundNumber number) const {
  std::vector<bool> seen(clients_.size());
  for (std::uint32_t i = 0; i < clients_.size(); ++i) {
    const proto::Round& round = *clients_[i].agent.round();
    const auto rank = static_cast<std::size_t>(round.group_rank);
    if (round.number != number || round.group_world_size != job_.nodes || rank >= seen.size() ||
        seen[rank] || round.first_rank != round.group_rank * job_.workers)
      fail(i, "its round is not that of the others");
    seen[rank] = true;
  }
}

// ---- the loop ----

/// Seconds until all have reached the goal.
double AgentSwarm::play(Goal goal) {
  const auto begun = Clock::now();
  goal_ = goal;
  missing_ = 0;
  for (Client& client : clients_) {
    client.is_there = goal(client);
    if (!client.is_there) ++missing_;
  }
  while (missing_ > 0) {
    connect_more();
    poll(1s);
    if (Clock::now() - begun > options_.give_up)
      throw std::runtime_error(fmt::format("not done in time: {} agents still wait", missing_));
  }
  return seconds_since(begun);
}

void AgentSwarm::poll(std::chrono::nanoseconds timeout) {
  pollfd ready{epoll_.get(), POLLIN, 0};
  const timespec limit{static_cast<time_t>(timeout / 1s),
                       static_cast<long>((timeout % 1s).count())};
  if (ppoll(&ready, 1, &limit, nullptr) <= 0) return;
  std::array<epoll_event, kEventsMax> events;
  const int count = epoll_wait(epoll_.get(), events.data(), kEventsMax, 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    on_event(event.data.u32, event.events);
  }
}

void AgentSwarm::connect_more() {
  while (connected_ < clients_.size() && unopened_ < options_.connecting_max) {
    ++unopened_;
    connect(connected_++);
  }
}

void AgentSwarm::connect(std::uint32_t index) {
  Client& client = clients_[index];
  client.fd.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = client.fd.get();
  if (fd < 0) fail_errno(index, "no socket");
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (options_.source_addresses > 1) {
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    const sockaddr_in from = ipv4(kLoopback + index % options_.source_addresses, 0);
    if (bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0)
      fail_errno(index, "bind failed");
  }
  const sockaddr_in to = ipv4(kLoopback, options_.port);
  client.connecting = ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0;
  if (client.connecting && errno != EINPROGRESS) fail_errno(index, "connect failed");
  watch(index, EPOLL_CTL_ADD, client.connecting ? EPOLLIN | EPOLLOUT : EPOLLIN);
  if (!client.connecting) flush(index);  // as is usual on loopback
}

void AgentSwarm::on_event(std::uint32_t index, std::uint32_t events) {
  Client& client = clients_[index];
  if ((events & EPOLLOUT) != 0) {
    if (std::exchange(client.connecting, false)) {
      int error = 0;
      socklen_t length = sizeof error;
      getsockopt(client.fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      errno = error;
      if (error != 0) fail_errno(index, "connect failed");
    }
    watch(index, EPOLL_CTL_MOD, EPOLLIN);
    flush(index);
  }
  if ((events & ~EPOLLOUT) == 0) return;
  const bool was_open = client.agent.is_open();
  try {
    receive(client);
  } catch (const std::runtime_error& error) {
    fail(index, error.what());
  }
  if (client.fd) flush(index);
  if (!was_open && client.agent.is_open()) --unopened_;
  if (!client.is_there && goal_ != nullptr && goal_(client)) {
    client.is_there = true;
    --missing_;
  }
}

void AgentSwarm::receive(Client& client) {
  const ssize_t length = recv(client.fd.get(), buffer_.get(), kBufferBytes, 0);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (length < 0) throw std::runtime_error(std::strerror(errno));
  if (length > 0) return client.agent.take({buffer_.get(), static_cast<std::size_t>(length)});
  if (!client.agent.finished()) throw std::runtime_error("the service closed the connection");
  client.fd.reset();
}

void AgentSwarm::flush(std::uint32_t index) {
  Client& client = clients_[index];
  client.unsent += client.agent.take_output();
  if (client.unsent.empty() || client.connecting) return;
  const ssize_t sent =
      send(client.fd.get(), client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) fail_errno(index, "send failed");
  client.unsent.erase(0, sent < 0 ? 0 : static_cast<std::size_t>(sent));
  if (!client.unsent.empty()) watch(index, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
}

void AgentSwarm::watch(std::uint32_t index, int operation, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = index;
  epoll_ctl(epoll_.get(), operation, clients_[index].fd.get(), &event);
}

}  // namespace ddprun::bench
