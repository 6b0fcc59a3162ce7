// An rdzvd at which the nodes of a job meet.
#pragma once

#include <string>
#include <vector>

#include "tests/integration/launcher/many_nodes.hpp"

namespace ddprun::test {

/// A lease of 1.2 s.
inline constexpr const char* kShortLease =
    "keep_alive_interval=0.4,keep_alive_max_attempt=3,last_call_timeout=1";

/// An rdzvd at a port of its own, or at one that was given.
class Rdzvd {
 public:
  explicit Rdzvd(const std::string& listen = "127.0.0.1:0", std::vector<std::string> more = {})
      : child_(command(listen, std::move(more))) {
    REQUIRE(child_.wait_for_output("\n"));
    endpoint = child_.out().substr(0, child_.out().find('\n'));
  }
  [[nodiscard]] std::vector<std::string> options(const std::string& count,
                                                 const std::string& more) const {
    return {"--nnodes=" + count, "--nproc-per-node=2", "--rdzv-backend=c10d",
            "--rdzv-endpoint=" + endpoint, "--rdzv-conf=is_host=0," + more};
  }
  void signal(int number) const { child_.signal(number); }
  ChildResult wait() { return child_.wait(); }

  std::string endpoint;

 private:
  static std::vector<std::string> command(const std::string& listen,
                                          std::vector<std::string> more) {
    more.insert(more.begin(), {program("rdzvd"), "--listen=" + listen});
    return more;
  }

  Child child_;
};

}  // namespace ddprun::test
