#include "launcher/ctl/job_connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/version.hpp"
#include "proto/error.hpp"

namespace ddprun::ctl {

Result<JobConnection> JobConnection::open(const std::string& address, Clock::time_point deadline) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (address.empty() || address.size() > sizeof name.sun_path)
    return ErrorCode(ENAMETOOLONG, boost::system::system_category());
  std::memcpy(name.sun_path + 1, address.data() + 1, address.size() - 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return last_system_error();
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), size) != 0)
    return last_system_error();  // EAGAIN: so many wait to be accepted that it does not answer
  JobConnection connection(std::move(socket), {});
  const proto::Hello ours{"job", kProtocolVersionMin, kProtocolVersionMax, {"requests"}};
  if (auto sent = connection.send(proto::encode_hello(ours), deadline); !sent) return sent.error();
  const auto answer = connection.receive(deadline);
  if (!answer) return answer.error();
  auto theirs = proto::decode_hello(*answer);
  if (!theirs) return theirs.error();
  if (const auto version = proto::agree_on_version(ours, *theirs); !version) return version.error();
  connection.features_ = std::move(theirs->features);
  return connection;
}

std::optional<uid_t> JobConnection::peer_user() const {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

bool JobConnection::has_feature(const std::string& feature) const {
  return std::find(features_.begin(), features_.end(), feature) != features_.end();
}

Result<void> JobConnection::wait(short what, std::optional<Clock::time_point> deadline) const {
  while (true) {
    int limit = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
      if (left.count() <= 0) return make_error_code(proto::Errc::timed_out);
      limit = static_cast<int>(left.count());
    }
    pollfd waited{socket_.get(), what, 0};
    const int count = poll(&waited, 1, limit);
    if (count > 0) return {};
    if (count < 0 && errno != EINTR) return last_system_error();
  }
}

Result<void> JobConnection::send(const std::string& json, Clock::time_point deadline) {
  const std::string frame = proto::encode_frame(json);
  for (std::size_t sent = 0; sent < frame.size();) {
    const ssize_t n = ::send(socket_.get(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno != EAGAIN && errno != EINTR) {
      return last_system_error();
    } else if (const auto ready = wait(POLLOUT, deadline); !ready) {
      return ready;
    }
  }
  return {};
}

Result<std::string> JobConnection::receive(std::optional<Clock::time_point> deadline) {
  std::array<char, 16'384> buffer{};
  while (true) {
    auto frame = parser_.next();
    if (!frame) return frame.error();
    if (*frame) return std::move(**frame);
    const ssize_t n = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (n > 0) {
      parser_.append({buffer.data(), static_cast<std::size_t>(n)});
    } else if (n == 0) {
      return make_error_code(proto::Errc::peer_closed);
    } else if (errno != EAGAIN && errno != EINTR) {
      return last_system_error();
    } else if (const auto ready = wait(POLLIN, deadline); !ready) {
      return ready.error();
    }
  }
}

}  // namespace ddprun::ctl
