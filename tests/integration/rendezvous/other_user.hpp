// Clients of other users, for tests that run as root.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "tests/support/skip.hpp"

namespace ddprun::test {

constexpr uid_t kStranger = 65534;

inline void need_root() {
  if (geteuid() != 0) skip("only root can be another user");
}

/// What a process of user `uid` reads when it sends `bytes` to the store: up to four bytes.
inline std::string received_by_user(uid_t uid, std::uint16_t port, const std::string& bytes) {
  int pipe_ends[2];
  REQUIRE(pipe2(pipe_ends, O_CLOEXEC) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // Only system calls: the server's thread may have held any lock.
    sockaddr_in addr{};
    addr.sin_family = AF_INET;
    addr.sin_port = htons(port);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (setresuid(uid, uid, uid) != 0) _exit(2);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&addr), sizeof addr) != 0) _exit(3);
    send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char reply[4];
    const ssize_t length = recv(fd, reply, sizeof reply, MSG_WAITALL);
    if (length > 0) [[maybe_unused]]
      const ssize_t written = write(pipe_ends[1], reply, static_cast<std::size_t>(length));
    _exit(0);
  }
  close(pipe_ends[1]);
  char reply[4];
  const ssize_t length = read(pipe_ends[0], reply, sizeof reply);
  close(pipe_ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  return {reply, static_cast<std::size_t>(length > 0 ? length : 0)};
}

}  // namespace ddprun::test
