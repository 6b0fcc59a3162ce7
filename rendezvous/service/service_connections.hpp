// The connections of the rendezvous service: which are let in, which wait for a place, and which is
// closed for another. What agents say on them is passed on. Lives on the service's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include <boost/asio/io_context.hpp>

#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "rendezvous/service/newcomers.hpp"
#include "rendezvous/service/service_acceptor.hpp"
#include "rendezvous/service/service_log.hpp"
#include "rendezvous/service/service_peer.hpp"
#include "rendezvous/service/service_server.hpp"

namespace ddprun::rdzv {

class ServiceConnections {
 public:
  /// A standby gives everybody the same answer: of these only `secret_for` is called there.
  struct Events {
    /// It has proven what it must.
    std::function<void(ServicePeer&)> opened;
    std::function<void(ConnectionId, proto::ClientMessage)> said;
    /// It is about to end, and was never open because of what it lacks.
    std::function<void(const std::string& run_id, const std::string& addr, Lack)> refused;
    /// It is known no more. `cleanly`: by FIN.
    std::function<void(ConnectionId, bool cleanly)> ended;
    /// What a client of this run id must prove. Empty: all prove the settings' secret.
    std::function<std::string(const std::string& run_id)> secret_for;
  };

  /// Settings and log are borrowed.
  ServiceConnections(boost::asio::io_context& context, const ServiceServerSettings& settings,
                     ServiceLog& log, Events events);
  ServiceConnections(const ServiceConnections&) = delete;
  ServiceConnections& operator=(const ServiceConnections&) = delete;

  /// Accepts from then on. Errors: the system's, where the descriptor cannot be watched.
  ErrorCode listen(UniqueFd listener) { return acceptor_.listen(std::move(listener)); }
  /// One that was accepted elsewhere, nothing read; it may have to wait.
  void adopt(UniqueFd connection);
  /// `addr`: the other end's, numeric; empty: it is in this process. It has a place at once.
  void add(UniqueFd fd, std::string addr);

  /// It has a session: it keeps its place, and its lease tells how long it may be silent.
  void attach(ConnectionId id);
  /// Null: it has ended.
  [[nodiscard]] std::shared_ptr<ServicePeer> find(ConnectionId id) const;
  /// Those with a session.
  [[nodiscard]] std::size_t agents() const { return peers_.size() - newcomers_.size(); }
  /// Nobody was served for so long until now.
  void leave_out(std::chrono::nanoseconds span) { newcomers_.leave_out(span); }
  /// Ends them all, by resets; none is told of.
  void reset();

 private:
  ServiceAcceptor::Events acceptor_events();
  ServicePeer::Events peer_events();
  bool make_room(const std::string& addr);
  bool free_descriptor();
  void warn_of_descriptors();
  void hear(ServicePeer& peer, proto::ClientMessage message);
  void end(const ServicePeer& peer, bool cleanly, const std::string& why);
  void hand_over(const ServicePeer& peer, UniqueFd fd);
  void send_elsewhere(const ServicePeer& peer);

  boost::asio::io_context& context_;
  const ServiceServerSettings& settings_;
  ServiceLog& log_;
  const Events events_;
  ServiceAcceptor acceptor_;
  Newcomers newcomers_;  // each is a peer
  bool has_told_of_descriptors_ = false;
  const std::shared_ptr<const ServicePeer::Events> peer_events_;
  std::unordered_map<ConnectionId, std::shared_ptr<ServicePeer>> peers_;
  ConnectionId connections_ = 0;
};

}  // namespace ddprun::rdzv
