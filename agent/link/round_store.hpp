// Where the workers of a round meet: the store that this node serves, or a port for the worker that
// serves it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "agent/config.hpp"
#include "agent/link/node_link.hpp"
#include "agent/workers/open_files.hpp"
#include "rendezvous/store/store_server.hpp"

namespace ddprun::agent {

class RoundStore {
 public:
  /// Where it would listen, and what workers of all nodes call that.
  struct Place {
    std::string addr;
    std::uint16_t port = 0;
  };

  /// All references are borrowed. `nodes`: null where this node is the only one. `failed`: the
  /// workers have no store, and why.
  RoundStore(boost::asio::io_context& context, const AgentConfig& config, const OpenFiles& files,
             NodeLink* nodes, std::function<void(std::string problem)> failed);

  /// Makes the place of the next round: our listening socket, or a port for rank 0's. Empty, or why
  /// there is none.
  std::string prepare();
  /// Empty before that.
  [[nodiscard]] Place place() const { return place_.value_or(Place{}); }
  /// For which there are descriptors.
  [[nodiscard]] std::uint64_t clients_max() const;
  /// Once, where this node has the rendezvous.
  void warn_of_few_files();

  /// The workers of the round have been started. `is_ours`: its store is this node's. The store's
  /// thread starts with its first client: programs that need no store get none. Errors: the
  /// system's.
  [[nodiscard]] ErrorCode offer(bool is_ours);
  /// Where the store is behind the service's port: its clients may be there.
  void hand_over_clients();
  /// The workers have ended.
  void end();
  /// Whether a worker asked the newest store for what only a newer PyTorch has.
  [[nodiscard]] bool has_newer_clients() const;

 private:
  void start(rdzv::StoreListener listener);

  boost::asio::io_context& context_;
  const AgentConfig& config_;
  const OpenFiles& files_;
  NodeLink* const nodes_;
  const std::function<void(std::string)> failed_;
  bool has_compared_files_ = false;              // with the number of nodes
  std::optional<Place> place_;                   // of the next round
  std::optional<rdzv::StoreListener> listener_;  // for the next round, where the store is ours
  bool is_wanted_ = false;                       // a round is out, and its store is this node's
  std::optional<boost::asio::posix::stream_descriptor> listening_;
  std::optional<rdzv::StoreServer> server_;
  bool has_newer_clients_ = false;
};

}  // namespace ddprun::agent
