#include "agent/preload/importer_socket.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/socket.hpp"

namespace ddprun::agent {
namespace {

constexpr std::size_t kPacketMax = 4096;
constexpr std::size_t kDescriptorsMax = 6;

}  // namespace

Result<Ends> make_ends() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return last_system_error();
  Ends result{UniqueFd(ends[0]), UniqueFd(ends[1])};
  const int on = 1;
  if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ||
      setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    return last_system_error();
  return result;
}

Result<UniqueFd> memory_file(std::string_view contents) {
  UniqueFd file(memfd_create("ddprun", MFD_CLOEXEC));
  if (!file) return last_system_error();
  while (!contents.empty()) {
    const ssize_t written = write(file.get(), contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return last_system_error();
    contents.remove_prefix(static_cast<std::size_t>(written));
  }
  return file;
}

ErrorCode send_packet(int socket, std::string_view text, const std::vector<int>& descriptors) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptorsMax)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const std::size_t bytes = sizeof(int) * descriptors.size();
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(header), descriptors.data(), bytes);
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return last_system_error();
  }
  return {};
}

Received receive_packet(int socket) {
  Received received;
  std::array<char, kPacketMax> text{};
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (bytes < 0) {
    received.would_wait = would_block(errno);
    return received;
  }
  received.packet.assign(text.data(), static_cast<std::size_t>(bytes));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
    received.sender = sender.pid;
  }
  return received;
}

}  // namespace ddprun::agent
