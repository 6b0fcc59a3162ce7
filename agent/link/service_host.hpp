// Whether this node has the job's rendezvous service, and that service.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/system/result.hpp>

#include "agent/config.hpp"
#include "rendezvous/client/own_service.hpp"
#include "rendezvous/service/hosting.hpp"
#include "rendezvous/service/service_server.hpp"

namespace ddprun::agent {

/// The secret of a rendezvous service in this agent.
struct OwnSecret {
  std::string secret;      ///< empty: none
  std::string credential;  ///< shows it to nodes of this user; empty: it is not shown
};

/// The job's, or a new one where the service is to make one and can. May block for some seconds.
/// The error is why there is none, though there must be.
boost::system::result<OwnSecret, std::string> own_secret(const RendezvousSettings& settings);

/// Others can connect to the service there, and it has no secret.
void warn_of_no_secret(const std::string& place);

/// Settings for a service in this agent, for its job alone. `newcomers_max`: how many connections
/// may have no session yet. Its lines go to the log of the context's thread.
rdzv::ServiceServerSettings agent_service_settings(boost::asio::io_context& context,
                                                   const AgentConfig& config,
                                                   const OwnSecret& secret,
                                                   std::size_t newcomers_max);

class ServiceHost final : public rdzv::OwnService {
 public:
  struct Events {
    std::function<void(const std::string& line)> notice;  ///< for people; from within `look`
    /// At most once, from the context: why this node cannot take part in the job.
    std::function<void(const std::string& problem)> failed;
    /// A connection to the service's port that is for the workers' store; on the service's thread.
    /// Empty: there are none.
    std::function<void(UniqueFd)> on_store_client;
  };

  /// The configuration, which has rendezvous settings, is borrowed.
  ServiceHost(boost::asio::io_context& context, const AgentConfig& config, Events events);

  /// How many connections may have no session yet. Before the first `look`.
  void set_newcomers_max(std::size_t most) { newcomers_max_ = most; }

  void look(const std::vector<std::string>& addresses) override;
  [[nodiscard]] bool is_here() const override { return server_.has_value(); }
  Result<UniqueFd> connect() override { return server_->connect_locally(); }
  [[nodiscard]] std::string port_user() const override;
  [[nodiscard]] std::string why_elsewhere() const override;

  /// The service ends as if its process were killed: connections are reset, and its memory of the
  /// job is lost. Another one begins at the same address and port. Requires is_here(). Not empty:
  /// why there is none now.
  [[nodiscard]] std::string kill_and_restart();

  /// Null: it is not here.
  [[nodiscard]] rdzv::ServiceServer* server() { return server_ ? &*server_ : nullptr; }
  /// By which others reach this node, where it has the service: a numeric address, or a name that
  /// they look up.
  [[nodiscard]] const std::string& public_addr() const { return public_addr_; }
  /// Numeric: on which it listens.
  [[nodiscard]] const std::string& listen_addr() const { return listen_addr_; }

 private:
  void listen(const rdzv::HostingChoice& choice);
  std::string serve(rdzv::StoreListener listener);
  void warn_of_no_secret() const;
  void fail_to_listen(const std::string& addr, const ErrorCode& error);
  void fail(const std::string& problem);

  boost::asio::io_context& context_;
  const AgentConfig& config_;
  const RendezvousSettings& settings_;
  const Events events_;
  std::size_t newcomers_max_ = rdzv::Newcomers::Limits{}.places;
  std::optional<rdzv::ServiceServer> server_;
  std::optional<OwnSecret> secret_;  // none: it was not needed yet
  std::string public_addr_;
  std::string listen_addr_;
  Endpoint endpoint_;  // the settings', with the port that it has got
  std::string why_;    // it is here, or is not: for people
  bool is_port_taken_ = false;
  bool has_failed_ = false;
};

}  // namespace ddprun::agent
