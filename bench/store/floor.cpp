#include "bench/store/floor.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace ddprun::bench {
namespace {

constexpr std::size_t kShortHeader = 5;
constexpr std::size_t kLongHeader = 9;
constexpr char kLong = 0x40;  // of the kind byte
constexpr std::size_t kReadBytes = 256 * 1024;
constexpr std::size_t kEventsMax = 256;

class FloorServer {
 public:
  explicit FloorServer(UniqueFd listener)
      : listener_(std::move(listener)), epoll_(epoll_create1(EPOLL_CLOEXEC)), zeros_(kReadBytes) {
    control(EPOLL_CTL_ADD, listener_.get(), EPOLLIN);
  }

  [[noreturn]] void run() {
    std::vector<char> buffer(kReadBytes);
    std::array<epoll_event, kEventsMax> events;
    while (true) {
      const int count = epoll_wait(epoll_.get(), events.data(), kEventsMax, -1);
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        const int fd = event.data.fd;
        if (fd == listener_.get()) {
          accept_all();
          continue;
        }
        if ((event.events & EPOLLOUT) != 0) send_owed(fd);
        if ((event.events & ~EPOLLOUT) == 0) continue;
        const ssize_t length = recv(fd, buffer.data(), buffer.size(), 0);
        if (length > 0) {
          take(fd, {buffer.data(), static_cast<std::size_t>(length)});
        } else if (length == 0 || errno != EAGAIN) {
          --open_;
          close(fd);
        }
      }
    }
  }

 private:
  struct Client {
    std::uint64_t owed = 0;  ///< reply bytes that are to be sent
    std::uint32_t rest = 0;  ///< bytes of the message at hand that have not come
    std::uint32_t reply = 0;
    Message::Kind kind = Message::Kind::answered;
    bool blocked = false;
    std::uint8_t header_bytes = 0;
    std::array<char, kLongHeader> header{};  ///< the part of a header that has come
  };

  void control(int operation, int fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    epoll_ctl(epoll_.get(), operation, fd, &event);
  }

  void accept_all() {
    while (true) {
      const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) return;
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const auto slot = static_cast<std::size_t>(fd);
      if (slot >= clients_.size()) clients_.resize(slot + 1);
      clients_[slot] = Client{};
      if (open_++ == 0) released_ = false;  // a new crowd
      control(EPOLL_CTL_ADD, fd, EPOLLIN);
    }
  }

  void take(int fd, std::string_view bytes) {
    Client& client = clients_[static_cast<std::size_t>(fd)];
    while (!bytes.empty()) {
      if (client.rest == 0 && !take_header(client, bytes)) break;
      const auto part = std::min<std::size_t>(client.rest, bytes.size());
      bytes.remove_prefix(part);
      client.rest -= static_cast<std::uint32_t>(part);
      if (client.rest == 0) complete(fd, client);
    }
    if (client.owed > 0) send_owed(fd);
  }

  /// False: the header is not whole yet.
  static bool take_header(Client& client, std::string_view& bytes) {
    std::size_t need = kShortHeader;
    while (true) {
      if (client.header_bytes > 0 && (client.header[0] & kLong) != 0) need = kLongHeader;
      const auto part = std::min<std::size_t>(
          client.header_bytes == 0 ? 1 : need - client.header_bytes, bytes.size());
      std::memcpy(client.header.data() + client.header_bytes, bytes.data(), part);
      client.header_bytes = static_cast<std::uint8_t>(client.header_bytes + part);
      bytes.remove_prefix(part);
      if (client.header_bytes == need) break;
      if (bytes.empty()) return false;
    }
    std::uint32_t length = 0;
    client.reply = 0;
    const std::size_t width = (need - 1) / 2;
    std::memcpy(&length, client.header.data() + 1, width);
    std::memcpy(&client.reply, client.header.data() + 1 + width, width);
    client.kind = static_cast<Message::Kind>(client.header[0] & ~kLong);
    client.rest = length - static_cast<std::uint32_t>(need);
    client.header_bytes = 0;
    return true;
  }

  void complete(int fd, Client& client) {
    switch (client.kind) {
      case Message::Kind::answered:
        client.owed += client.reply;
        return;
      case Message::Kind::held:
        if (released_) {
          ++client.owed;
        } else {
          held_.push_back(fd);
        }
        return;
      case Message::Kind::releasing:
        released_ = true;
        client.owed += client.reply;
        for (const int waiter : held_) {
          ++clients_[static_cast<std::size_t>(waiter)].owed;
          send_owed(waiter);
        }
        held_.clear();
        return;
    }
  }

  void send_owed(int fd) {
    Client& client = clients_[static_cast<std::size_t>(fd)];
    while (client.owed > 0) {
      const ssize_t sent =
          send(fd, zeros_.data(), std::min<std::uint64_t>(client.owed, kReadBytes), MSG_NOSIGNAL);
      if (sent < 0) break;
      client.owed -= static_cast<std::uint64_t>(sent);
    }
    const bool blocked = client.owed > 0;
    if (blocked == client.blocked) return;
    client.blocked = blocked;
    control(EPOLL_CTL_MOD, fd, blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }

  UniqueFd listener_;
  UniqueFd epoll_;
  std::vector<char> zeros_;
  std::vector<Client> clients_;  ///< by descriptor
  std::vector<int> held_;
  bool released_ = false;
  std::size_t open_ = 0;
};

}  // namespace

void put_floor_header(Message& message) {
  const auto length = static_cast<std::uint32_t>(message.bytes.size());
  const auto reply = static_cast<std::uint32_t>(message.reply_bytes);
  const bool is_long = length > 0xFFFF || reply > 0xFFFF;
  if (length < (is_long ? kLongHeader : kShortHeader)) {
    std::fprintf(stderr, "bench_store: a message of %u bytes is too short for the floor\n", length);
    std::abort();
  }
  const std::size_t width = is_long ? 4 : 2;
  message.bytes[0] = static_cast<char>(static_cast<char>(message.kind) | (is_long ? kLong : 0));
  std::memcpy(message.bytes.data() + 1, &length, width);
  std::memcpy(message.bytes.data() + 1 + width, &reply, width);
}

void serve_floor(UniqueFd listener) { FloorServer(std::move(listener)).run(); }

}  // namespace ddprun::bench
