#include "warden/warden_link.hpp"

#include <cstring>

namespace ddprun::warden {
namespace {

/// Room for one descriptor beside a message.
union Ancillary {
  cmsghdr header;
  char room[CMSG_SPACE(sizeof(int))];
};

}  // namespace

void WardenLink::hold_connection(int connection) const {
  WardenNote note{WardenNote::Kind::connection, 0};
  iovec part{&note, sizeof note};
  Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (connection >= 0) {
    message.msg_control = &ancillary;
    message.msg_controllen = sizeof ancillary.room;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof connection);
    std::memcpy(CMSG_DATA(header), &connection, sizeof connection);
  }
  [[maybe_unused]] const auto sent = sendmsg(socket(), &message, MSG_NOSIGNAL);
}

void WardenLink::lease(std::optional<LeasePage::TimePoint> until) {
  if (!lease_) return;
  if (!until) return lease_->clear();
  const bool is_first = !lease_->until();
  lease_->set(*until);
  if (is_first) tell({WardenNote::Kind::lease_began, 0});  // it may sleep without a deadline
}

std::optional<ReceivedNote> receive_note(int socket, bool& ended) {
  ReceivedNote received;
  iovec part{&received.note, sizeof received.note};
  Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &ancillary;
  message.msg_controllen = sizeof ancillary.room;
  const ssize_t count = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  ended = count == 0;
  if (count > 0) {
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
      received.descriptor.reset(descriptor);
    }
  }
  if (count != static_cast<ssize_t>(sizeof received.note)) return std::nullopt;
  return received;
}

}  // namespace ddprun::warden
