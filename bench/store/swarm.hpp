// The load generator: many connections to one server, played by one thread each through an epoll
// loop. A client sends, waits for the whole reply, and takes its next step.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_handle.hpp"
#include "bench/store/histogram.hpp"
#include "bench/store/script.hpp"

namespace ddprun::bench {

/// What one run of a script showed.
struct Played {
  std::string error;  ///< empty: all went as the script says
  double seconds = 0;
  std::uint64_t messages = 0;
  std::uint64_t receives = 0;     ///< calls that brought bytes of replies
  Histogram latency;              ///< of messages with a reply
  double slowest_connect_ms = 0;  ///< to the reply of the first message
};

struct SwarmOptions {
  std::uint16_t port = 0;
  std::uint32_t clients = 1;
  /// Clients come from 127.0.0.1, 127.0.0.2, ... in turn. One address has about 28,000 ports.
  std::uint32_t source_addresses = 1;
  /// Clients that may be connected and without their first reply. Below net.core.somaxconn (4096),
  /// so that no connect is lost and repeated a second later.
  std::uint32_t connecting_max = 2000;
  bool floor = false;  ///< the server is the floor: messages get its header
  /// The generator never sleeps. A sleeping one is woken by the server's send, which costs the
  /// server about as much as a request, and only a server that is slower than the generator pays
  /// that.
  bool spin = false;
  bool abrupt = false;  ///< clients leave with a reset instead of a normal close
};

struct PlayLimits {
  std::chrono::nanoseconds measure{0};  ///< no new step after this; 0: until every client is done
  std::chrono::nanoseconds give_up = std::chrono::seconds(120);
};

class Swarm {
 public:
  explicit Swarm(const SwarmOptions& options, std::uint32_t first_client = 0);
  Swarm(Swarm&&) = default;
  ~Swarm();

  /// Plays `script` from step 0 on every client; those that are not connected yet connect first.
  Played play(const Script& script, const PlayLimits& limits);

  [[nodiscard]] std::uint32_t clients() const {
    return static_cast<std::uint32_t>(clients_.size());
  }
  /// Data segments that the kernel received for the first client, as TCP_INFO counts them.
  [[nodiscard]] std::uint64_t segments_received() const;

 private:
  struct Client {
    UniqueFd fd;
    bool connecting = false;
    bool running = false;
    bool answered = false;  ///< has had its first reply
    std::uint64_t step = 0;
    std::uint64_t due = 0;  ///< bytes of the reply that are missing
    std::int64_t sent_ns = 0;
    std::int64_t begun_ns = 0;
    std::unique_ptr<std::string> unsent;
  };

  void start(std::uint32_t index);
  bool connect(std::uint32_t index);
  void advance(std::uint32_t index);
  bool send(std::uint32_t index);
  void on_event(std::uint32_t index, std::uint32_t events);
  void on_reply(std::uint32_t index);
  void watch(std::uint32_t index, int operation, std::uint32_t events);
  void fail(std::uint32_t index, const std::string& what);

  SwarmOptions options_;
  std::uint32_t first_client_;
  UniqueFd epoll_;
  std::vector<Client> clients_;
  std::unique_ptr<char[]> buffer_;

  // Members for the run at hand.
  const Script* script_ = nullptr;
  Message message_;
  Played played_;
  bool stopping_ = false;
  std::uint32_t running_ = 0;
  std::uint32_t unanswered_ = 0;
};

/// Several swarms, a thread each, as one.
class SwarmGroup {
 public:
  SwarmGroup(const SwarmOptions& options, unsigned threads);
  Played play(const Script& script, const PlayLimits& limits);
  [[nodiscard]] std::uint64_t segments_received() const {
    return swarms_.front().segments_received();
  }

 private:
  std::vector<Swarm> swarms_;
};

}  // namespace ddprun::bench
