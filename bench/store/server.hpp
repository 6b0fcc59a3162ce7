// The servers under test, each in a process of its own so that its CPU time and memory are its own.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_handle.hpp"

namespace ddprun::bench {

enum class Speech { c10d, floor, redis };

/// How one server is started.
struct ServerKind {
  std::string name;  ///< "ours", "floor", "rdzvd", "libuv", "legacy", "redis"
  Speech speech = Speech::c10d;
  std::vector<std::string> command;  ///< "{port}" stands for a free port
  bool prints_port = true;  ///< its first line ends with the port; else asked by connecting
};

/// All kinds named in `names` that can run here. One that cannot is left out with a line on stderr.
std::vector<ServerKind> find_servers(const std::vector<std::string>& names,
                                     const std::string& python);

/// What `bench_store --serve=NAME` does: prints the port and serves until stdin is closed.
int serve(const std::string& name);

/// One running server; killed by the destructor.
class Server {
 public:
  struct Surroundings {
    int cpu = -1;             ///< pinned to it; -1: not pinned
    std::string resolv_conf;  ///< shown to it as /etc/resolv.conf (root only); empty: the machine's
  };
  /// Throws std::runtime_error where it does not start within 60 s.
  Server(ServerKind kind, const Surroundings& surroundings);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] const std::string& name() const { return kind_.name; }
  [[nodiscard]] Speech speech() const { return kind_.speech; }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// CPU time of all its threads so far, user and kernel.
  [[nodiscard]] double cpu_seconds() const;
  /// Memory that it has written to and holds now.
  [[nodiscard]] double resident_bytes() const;
  /// Returns when it has used no CPU time for 50 ms: it has done all that it was sent.
  void settle() const;

 private:
  ServerKind kind_;
  pid_t pid_ = -1;
  UniqueFd input_;  ///< its stdin; closes when we go, however we go
  std::uint16_t port_ = 0;
};

}  // namespace ddprun::bench
