// The way to the other nodes of the job: where the rendezvous service is, a session with it, and
// what the warden has to know of that. On the control thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/config.hpp"
#include "agent/link/membership_link.hpp"
#include "agent/link/remote_membership.hpp"
#include "agent/link/service_host.hpp"
#include "agent/workers/open_files.hpp"
#include "rendezvous/client/resolver.hpp"
#include "rendezvous/shared/etcd_rendezvous.hpp"
#include "rendezvous/store/store_handover.hpp"
#include "warden/warden_link.hpp"

namespace ddprun::agent {

/// The address of this machine's own name, by which other programs meet.
class OwnName {
 public:
  explicit OwnName(boost::asio::io_context& context) : resolver_(context), timer_(context) {}

  /// `found` gets the numeric address, empty if the name has none. `settled` is called once: by
  /// then, or when it has taken so long that nothing waits for it any more.
  void look_up(const std::string& name, std::function<void(const std::string& addr)> found,
               std::function<void()> settled);
  [[nodiscard]] bool is_settled() const { return is_settled_; }

 private:
  rdzv::Resolver resolver_;
  boost::asio::steady_timer timer_;
  bool is_settled_ = false;
};

class NodeLink final : public MembershipLink {
 public:
  struct Events {
    Handler message;                                      ///< from the membership core
    std::function<void(const std::string& line)> notice;  ///< for people
    /// Once: the service has been reached, and this node may prepare its first round.
    std::function<void()> ready;
    /// At most once: why this node cannot take part. It may leave, and nothing else follows.
    std::function<void(const std::string& problem)> failed;
    /// Whether they run, or are about to: then the warden kills them at the end of the lease.
    std::function<bool()> has_workers;
    /// For the environment of workers that are started later.
    std::function<void(const std::string& name, const std::string& value)> add_to_environment;
    /// Clients of the workers' store are at the service's port.
    std::function<void()> store_is_wanted;
  };

  /// The configuration, which has rendezvous settings, and the warden's link are borrowed.
  NodeLink(boost::asio::io_context& context, const AgentConfig& config, warden::WardenLink& warden,
           Events events);

  /// `shares`: of the connections, should the service be here.
  void start(const ConnectionShares& shares);

  [[nodiscard]] const proto::AgentId& own_id() const override { return session_.own_id(); }
  [[nodiscard]] bool can_ask_restart() const override { return session_.can_ask_restart(); }
  void send(proto::AgentMessage message) override;
  void send(proto::AgentMessage message,
            std::chrono::steady_clock::time_point round_began) override {
    if (!has_failed_) session_.send(std::move(message), round_began);
  }
  void end_in_order() override;

  /// Whether the service is here, and ends with this agent.
  [[nodiscard]] bool is_host() const { return host_.is_here(); }
  /// Whether it is, or may yet be.
  [[nodiscard]] bool may_host() const { return host_.is_here() || over_etcd_ != nullptr; }
  /// Numeric: on which this node listens for others.
  [[nodiscard]] const std::string& own_addr() const { return own_addr_; }
  /// By which others reach this node: numeric, or a name that they look up.
  [[nodiscard]] std::string public_addr() const;
  /// As ServiceHost's. Requires is_host().
  [[nodiscard]] std::string kill_service() { return host_.kill_and_restart(); }
  /// Nothing is heard of the service and nothing reaches it, for so long.
  void cut_off(std::chrono::nanoseconds length);
  /// Workers are about to be started.
  void keep_lease();

  /// Where the workers' store is behind the service's port: its clients that are there.
  [[nodiscard]] bool has_store_clients() const { return handover_ && handover_->parked() > 0; }
  /// They, and those that come, are given to the store until `close_store`.
  void open_store(rdzv::StoreServer& store) { handover_->open(store); }
  void close_store();

  /// Where the service is here: until the other nodes know how the job ended, or a signal comes,
  /// or they are lost.
  void linger();

 private:
  [[nodiscard]] ServiceHost::Events host_events();
  [[nodiscard]] RemoteMembership::Events session_events();
  void wait_for_close();
  void wait_for_others();
  std::string start_over_etcd(std::size_t newcomers_max);
  void fail(const std::string& problem);
  void note_connection();
  void warn_if_unproven();
  void note_welcome(const proto::Welcome& welcome);
  void meet();
  void note_own_addr(const std::string& addr);

  boost::asio::io_context& context_;
  const AgentConfig& config_;
  const RendezvousSettings& settings_;
  warden::WardenLink& warden_;
  const Events events_;
  std::optional<rdzv::StoreHandover> handover_;  // where the store is behind the service's port
  ServiceHost host_;                             // its thread uses that
  const std::unique_ptr<rdzv::EtcdRendezvous> over_etcd_;  // null: the service is at the endpoint
  RemoteMembership session_;
  bool has_failed_ = false;
  bool is_met_ = false;
  bool needs_host_;                   // an agent must have the service, which --chaos kills
  bool has_warned_unproven_ = false;  // that the rendezvous has not proven our secret
  bool is_connection_held_ = false;   // by the warden, too
  std::optional<rdzv::SessionClock::time_point> lease_end_;
  std::string own_addr_;
  std::string service_host_;  // of the service that was reached last
  OwnName own_name_;
  boost::asio::steady_timer cut_timer_;
};

}  // namespace ddprun::agent
