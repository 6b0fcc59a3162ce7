#include "rendezvous/store/peer_users.hpp"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace ddprun::rdzv {
namespace {

/// One end of a connection as the kernel's table has it: a mapped IPv4 address is an IPv4 one.
struct End {
  std::array<std::uint32_t, 4> addr{};  ///< network order; IPv4 uses the first
  std::uint16_t port = 0;               ///< network order
  std::uint8_t family = AF_UNSPEC;

  [[nodiscard]] bool loopback() const {
    if (family == AF_INET) return (ntohl(addr[0]) >> 24) == 127;
    return family == AF_INET6 && addr == std::array<std::uint32_t, 4>{0, 0, 0, htonl(1)};
  }
};

using NameCall = int (*)(int, sockaddr*, socklen_t*);

End end_of(int fd, NameCall name) {
  sockaddr_storage addr{};
  socklen_t length = sizeof addr;
  End end;
  if (name(fd, reinterpret_cast<sockaddr*>(&addr), &length) != 0) return end;
  if (addr.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(addr);
    end = {{v4.sin_addr.s_addr}, v4.sin_port, AF_INET};
  } else if (addr.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(addr);
    end = {{}, v6.sin6_port, AF_INET6};
    std::memcpy(end.addr.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      end.addr = {end.addr[3]};
      end.family = AF_INET;
    }
  }
  return end;
}

struct Found {
  bool open = false;  ///< some process still has it
  uid_t uid = 0;
  int error = 0;
};

/// Asks for the socket that is at `own` and connected to `other`.
Found look_up(int netlink, const End& own, const End& other) {
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = own.family;
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~0U;
  inet_diag_sockid& id = question.request.id;
  id.idiag_sport = own.port;
  id.idiag_dport = other.port;
  std::memcpy(id.idiag_src, own.addr.data(), sizeof id.idiag_src);
  std::memcpy(id.idiag_dst, other.addr.data(), sizeof id.idiag_dst);
  id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (send(netlink, &question, sizeof question, 0) < 0) return {false, 0, errno};

  // The kernel answers within the send.
  alignas(nlmsghdr) std::array<char, 1024> answer{};
  const ssize_t length = recv(netlink, answer.data(), answer.size(), 0);
  if (length < 0) return {false, 0, errno};
  nlmsghdr header{};
  if (static_cast<std::size_t>(length) < sizeof header) return {false, 0, EPROTO};
  std::memcpy(&header, answer.data(), sizeof header);
  const char* const payload = answer.data() + NLMSG_HDRLEN;
  const std::size_t payload_bytes = static_cast<std::size_t>(length) - NLMSG_HDRLEN;
  if (header.nlmsg_type == NLMSG_ERROR && payload_bytes >= sizeof(nlmsgerr)) {
    nlmsgerr error{};
    std::memcpy(&error, payload, sizeof error);
    return {false, 0, -error.error};
  }
  inet_diag_msg socket_info{};
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || payload_bytes < sizeof socket_info) {
    return {false, 0, EPROTO};
  }
  std::memcpy(&socket_info, payload, sizeof socket_info);
  return {socket_info.idiag_inode != 0, socket_info.idiag_uid, 0};
}

}  // namespace

PeerUsers::PeerUsers(std::vector<uid_t> allowed)
    : allowed_(std::move(allowed)),
      netlink_(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG)) {
  allowed_.insert(allowed_.end(), {0, getuid(), geteuid()});
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (!netlink_ || connect(netlink_.get(), reinterpret_cast<sockaddr*>(&kernel), sizeof kernel)) {
    failure_ = std::strerror(errno);
    netlink_.reset();
  }
}

PeerUsers::Peer PeerUsers::ask(int fd) {
  const End peer = end_of(fd, getpeername);
  if (peer.family == AF_UNSPEC) return {Answer::gone, 0, ""};
  if (!peer.loopback()) return {};
  if (!netlink_) return {Answer::unknown, 0, failure_};
  const End ours = end_of(fd, getsockname);
  const Found found = look_up(netlink_.get(), peer, ours);
  if (found.open) {
    const bool allowed = std::find(allowed_.begin(), allowed_.end(), found.uid) != allowed_.end();
    return {allowed ? Answer::allowed : Answer::other, found.uid, ""};
  }
  // Once its process has closed it, the socket has no owner, and root's number stands there.
  // Our own end is surely there: if even that is not found, the kernel does not tell.
  const Found control = look_up(netlink_.get(), ours, peer);
  if (control.open) return {Answer::gone, 0, ""};
  failure_ = control.error != 0 ? std::strerror(control.error) : "it does not know our own socket";
  netlink_.reset();
  return {Answer::unknown, 0, failure_};
}

}  // namespace ddprun::rdzv
