// What every socket of ours needs, in one place.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

namespace ddprun {

/// Whether a call on a non-blocking socket failed only because it would have to wait: try again
/// when the socket is ready.
inline bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/// The last close of the socket resets the connection instead of ending it in order.
inline void reset_on_close(int socket) {
  const linger hard{1, 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
}

/// A reply of one byte does not wait for another.
inline void send_at_once(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// For a connection on which both sides talk now and then: small messages go out at once, and the
/// kernel ends it when bytes stay unacknowledged for 15 s or a silent peer is gone.
inline void set_control_options(int socket) {
  const int on = 1;
  const unsigned limit_ms = 15'000;
  send_at_once(socket);
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
}

enum class ConnectionSide { connected, accepted };

/// The end that connected, then the end that accepted: "10.0.0.2:41234>10.0.0.1:29400". Loopback
/// addresses are not unique: their text also has the kernel's boot id and the network namespace.
/// Empty: not a connected TCP socket, or its other end is gone.
std::string connection_path(int socket, ConnectionSide ours);

}  // namespace ddprun
