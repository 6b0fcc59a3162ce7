// The load generator: the agents of one job, each with a connection of its own, played by one
// thread through an epoll loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_handle.hpp"
#include "bench/service/sim_agent.hpp"

namespace ddprun::bench {

struct AgentSwarmOptions {
  std::uint16_t port = 0;
  std::uint32_t agents = 1;
  /// They come from 127.0.0.1, 127.0.0.2, ... in turn. One address has about 28,000 ports.
  std::uint32_t source_addresses = 1;
  /// Agents that may be connected and without the service's hello. Below net.core.somaxconn (4096),
  /// so that no connect is lost and repeated a second later.
  std::uint32_t connecting_max = 2000;
  std::chrono::nanoseconds give_up = std::chrono::seconds(120);
  std::string secret = {};                                      ///< that all have; empty: none
  std::shared_ptr<const proto::Encrypter> encrypter = nullptr;  ///< null: none
};

/// Every member throws std::runtime_error where the service does not do its part, or not in time.
class AgentSwarm {
 public:
  explicit AgentSwarm(const AgentSwarmOptions& options);

  /// All connect and join. Seconds from the first connect to the last agent's round.
  double form();
  /// A worker of one agent fails; all stop and join again. Seconds from its message to the last
  /// agent's new round.
  double form_again();
  /// All workers are done. Seconds from the first message to the last connection's end, which
  /// follows the goodbye.
  double end();
  /// Each agent sends keep-alives as often as the service asked for, spread evenly. Returns how
  /// many; all were answered.
  std::int64_t keep_alive_for(std::chrono::nanoseconds time);

  /// As the service asked for it.
  [[nodiscard]] std::chrono::nanoseconds keep_alive_period() const;

 private:
  struct Client {
    explicit Client(SimAgent&& one) : agent(std::move(one)) {}
    SimAgent agent;
    UniqueFd fd;
    bool connecting = false;
    bool is_there = false;  ///< where all are waited for
    std::string unsent;
  };
  using Goal = bool (*)(const Client&);

  double play(Goal goal);
  void poll(std::chrono::nanoseconds timeout);
  void connect_more();
  void connect(std::uint32_t index);
  void on_event(std::uint32_t index, std::uint32_t events);
  void receive(Client& client);
  void flush(std::uint32_t index);
  void watch(std::uint32_t index, int operation, std::uint32_t events);
  void check_ranks(proto::RoundNumber number) const;

  const AgentSwarmOptions options_;
  SimJob job_;
  UniqueFd epoll_;
  std::vector<Client> clients_;
  std::unique_ptr<char[]> buffer_;
  std::uint32_t connected_ = 0;  // or trying to
  std::uint32_t unopened_ = 0;   // of these

  Goal goal_ = nullptr;
  std::uint32_t missing_ = 0;  // agents that are not where all are waited for
};

}  // namespace ddprun::bench
