// Whether this node has the job's rendezvous service, and that service.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/config.hpp"
#include "rendezvous/client/resolver.hpp"
#include "rendezvous/service/service_server.hpp"

namespace ddprun::agent {

class ServiceHost {
 public:
  /// Called from the context.
  struct Events {
    std::function<void(const std::string& line)> tell;  ///< for people
    /// Once. Not empty: why this node cannot take part in the job.
    std::function<void(const std::string& problem)> settled;
    /// A connection to the service's port that is for the workers' store; on the service's thread.
    /// Empty: there are none.
    std::function<void(UniqueFd)> on_store_client;
  };

  /// The configuration, which has rendezvous settings, is borrowed.
  ServiceHost(boost::asio::io_context& context, const AgentConfig& config, Events events);

  /// Looks the endpoint up until it has an address, and listens there if it is ours.
  void settle();

  /// Null: another node has it, or it is not settled.
  [[nodiscard]] rdzv::ServiceServer* server() { return server_ ? &*server_ : nullptr; }
  [[nodiscard]] bool is_here() const { return server_.has_value(); }
  /// By which others reach this node, where it has the service: a numeric address, or a name that
  /// they look up.
  [[nodiscard]] const std::string& public_addr() const { return public_addr_; }
  /// Numeric: on which it listens.
  [[nodiscard]] const std::string& listen_addr() const { return listen_addr_; }
  /// The program that has its port on this machine, where the service might have been here; empty:
  /// none, or it is not known.
  [[nodiscard]] const std::string& port_user() const { return port_user_; }

 private:
  void look_up();
  void take(Result<rdzv::Addresses> addresses);
  void try_again(const std::string& trouble);
  void listen(const rdzv::HostingChoice& choice);
  void serve(rdzv::StoreListener listener);
  void settled(const std::string& problem);

  boost::asio::io_context& context_;
  const AgentConfig& config_;
  const RendezvousSettings& settings_;
  const Events events_;
  rdzv::Resolver resolver_;
  boost::asio::steady_timer timer_;
  const std::chrono::steady_clock::time_point began_at_ = std::chrono::steady_clock::now();
  std::chrono::milliseconds pause_;
  std::string told_;
  std::optional<rdzv::ServiceServer> server_;
  std::string public_addr_;
  std::string listen_addr_;
  std::string why_;  // it is here, or is not: for people
  std::string port_user_;
};

}  // namespace ddprun::agent
