#include "rendezvous/service/service_connections.hpp"

#include <sys/resource.h>

#include <utility>

#include <fmt/format.h>

#include "base/boot_clock.hpp"
#include "rendezvous/store/peer_name.hpp"

namespace ddprun::rdzv {

ServiceConnections::ServiceConnections(boost::asio::io_context& context,
                                       const ServiceServerSettings& settings, ServiceLog& log,
                                       Events events)
    : context_(context),
      settings_(settings),
      log_(log),
      events_(std::move(events)),
      acceptor_(context,
                {settings.check_uid && settings.secret.empty() && !events_.secret_for,
                 settings.allowed_uids},
                acceptor_events()),
      newcomers_(settings.newcomers),
      peer_events_(std::make_shared<ServicePeer::Events>(peer_events())) {}

void ServiceConnections::adopt(UniqueFd connection) {
  if (peers_.size() + acceptor_.waiting() >= settings_.connections_max) {
    return log_.warn_of_peer(fmt::format("closed {}: the limit of {} connections is reached",
                                         peer_name(connection.get()), settings_.connections_max));
  }
  acceptor_.adopt(std::move(connection));
}

void ServiceConnections::add(UniqueFd fd, std::string addr) {
  const ConnectionId id = ++connections_;
  auto peer = std::make_shared<ServicePeer>(context_, id, std::move(addr), peer_events_);
  proto::ControlChannel::Settings channel;
  channel.side = proto::Side::service;
  channel.hello = proto::rendezvous_hello();
  channel.hello.munge = settings_.credential;
  channel.secret = settings_.secret;
  channel.secret_for = events_.secret_for;
  if (peer->begin(std::move(fd), std::move(channel))) return;
  newcomers_.add(id, peer->addr(), boot_clock_now());
  peer->expect_within(settings_.silent_within);
  peers_.emplace(id, std::move(peer));
}

void ServiceConnections::attach(ConnectionId id) {
  newcomers_.remove(id);
  peers_.at(id)->expect_forever();
}

std::shared_ptr<ServicePeer> ServiceConnections::find(ConnectionId id) const {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second;
}

void ServiceConnections::reset() {
  for (auto& [id, peer] : std::exchange(peers_, {})) {
    newcomers_.remove(id);
    peer->reset();
  }
}

// ---- places ----

ServiceAcceptor::Events ServiceConnections::acceptor_events() {
  ServiceAcceptor::Events events;
  events.make_room = [this](const std::string& addr) { return make_room(addr); };
  events.free_descriptor = [this] { return free_descriptor(); };
  events.admitted = [this](UniqueFd fd, std::string addr) { add(std::move(fd), std::move(addr)); };
  events.refused = [this](const std::string& line) { log_.warn_of_peer(line); };
  return events;
}

/// Connections that say nothing must not keep those out that would.
bool ServiceConnections::make_room(const std::string& addr) {
  const bool is_full = peers_.size() >= settings_.connections_max;
  if (!is_full && newcomers_.has_place()) return true;
  if (!is_full && settings_.has_few_files) warn_of_descriptors();
  const auto now = boot_clock_now();
  const auto id = is_full ? newcomers_.oldest(now) : newcomers_.to_close_for(addr, now);
  if (!id) return false;
  std::shared_ptr<ServicePeer>(peers_.at(*id))->make_way_for_place();
  return true;
}

bool ServiceConnections::free_descriptor() {
  warn_of_descriptors();
  const auto id = newcomers_.oldest(boot_clock_now());
  if (!id) return false;
  std::shared_ptr<ServicePeer>(peers_.at(*id))->make_way_for_descriptor();
  return true;
}

/// Once.
void ServiceConnections::warn_of_descriptors() {
  if (std::exchange(has_told_of_descriptors_, true)) return;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  log_.warn(fmt::format(
      "connections wait, because this process may have no more than {} open files: raise the "
      "limit (ulimit -n); agents connected: {}",
      files.rlim_cur, agents()));
}

// ---- what peers do ----

ServicePeer::Events ServiceConnections::peer_events() {
  ServicePeer::Events events;
  events.encrypter = settings_.encrypter;
  events.controls = [this](ServicePeer& peer) { peer.expect_within(settings_.open_within); };
  events.opened = [this](ServicePeer& peer) {
    settings_.standby ? send_elsewhere(peer) : events_.opened(peer);
  };
  events.said = [this](ServicePeer& peer, proto::ClientMessage message) {
    if (!settings_.standby) hear(peer, std::move(message));
  };
  events.ended = [this](ServicePeer& peer, bool cleanly, const std::string& why) {
    end(peer, cleanly, why);
  };
  events.speaks_c10d = [this](ServicePeer& peer, UniqueFd fd) { hand_over(peer, std::move(fd)); };
  events.is_silent = [this](ServicePeer&) { return settings_.on_store_client != nullptr; };
  return events;
}

void ServiceConnections::hear(ServicePeer& peer, proto::ClientMessage message) {
  const bool is_newcomer = newcomers_.contains(peer.id());
  if (is_newcomer) peer.expect_within(settings_.open_within);
  events_.said(peer.id(), std::move(message));
  if (is_newcomer) acceptor_.serve_waiting();
}

void ServiceConnections::end(const ServicePeer& peer, bool cleanly, const std::string& why) {
  if (!why.empty()) log_.warn_of_peer(fmt::format("closed {}: {}", peer.name(), why));
  const ConnectionId id = peer.id();
  const std::string* const run_id = peer.claimed_run_id();
  if (run_id != nullptr && peer.lack() != Lack::nothing && !settings_.standby)
    events_.refused(*run_id, peer.addr(), peer.lack());
  newcomers_.remove(id);
  peers_.erase(id);
  if (!settings_.standby) events_.ended(id, cleanly);
  acceptor_.serve_waiting();
}

void ServiceConnections::hand_over(const ServicePeer& peer, UniqueFd fd) {
  newcomers_.remove(peer.id());
  peers_.erase(peer.id());
  acceptor_.serve_waiting();
  if (settings_.on_store_client) return settings_.on_store_client(std::move(fd));
  log_.warn_of_peer(
      fmt::format("closed {}: its protocol is that of PyTorch's store; a torchrun "
                  "agent cannot take part in a job of ddprun agents",
                  peer.name()));
}

void ServiceConnections::send_elsewhere(const ServicePeer& peer) {
  const std::shared_ptr<ServicePeer> kept = peers_.at(peer.id());  // it may end by that
  kept->send(settings_.standby());
  kept->flush();
  kept->close_in_order();
}

}  // namespace ddprun::rdzv
