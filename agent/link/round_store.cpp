#include "agent/link/round_store.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/no_descriptor.hpp"
#include "base/unique_handle.hpp"
#include "rendezvous/store/port_owner.hpp"

namespace ddprun::agent {
namespace {

std::string not_our_address(const AgentConfig& config, const std::string& host) {
  const std::string& name = config.store.master_addr.empty() ? host : config.store.master_addr;
  return fmt::format(
      "{}{} is not an address of this machine; leave out --master-addr and --local-addr", name,
      name == host ? "" : " (" + host + ")");
}

/// A free TCP port of `host` (a numeric address) that the kernel gives to no other process for
/// about a minute, and that a listener with SO_REUSEADDR, as every PyTorch has, may still take: it
/// is left in TIME_WAIT. In `ports`, where that is given. Errors: the system's.
Result<std::uint16_t> reserve_port(const std::string& host, const std::optional<PortRange>& ports) {
  auto listener =
      ports ? rdzv::listen_store(host, ports->first, ports->last) : rdzv::listen_store(host, 0);
  if (!listener) return listener.error();
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (getsockname(listener->fd.get(), any, &length) != 0) return last_system_error();
  const UniqueFd client(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // To our own backlog: connected at once, or not at all.
  if (!client || connect(client.get(), any, length) != 0) return last_system_error();
  // The side that closes first keeps the port in TIME_WAIT: our end, by the destructor, before the
  // client's.
  UniqueFd accepted(accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted) return last_system_error();
  accepted.reset();
  return listener->port;
}

}  // namespace

RoundStore::RoundStore(boost::asio::io_context& context, const AgentConfig& config,
                       const OpenFiles& files, NodeLink* nodes,
                       std::function<void(std::string problem)> failed)
    : context_(context),
      config_(config),
      files_(files),
      nodes_(nodes),
      failed_(std::move(failed)) {}

std::uint64_t RoundStore::clients_max() const {
  const bool is_shared = nodes_ != nullptr && nodes_->may_host();
  return is_shared ? connection_shares(config_, files_).store_clients : files_.store_clients;
}

void RoundStore::warn_of_few_files() {
  if (nodes_ == nullptr || !nodes_->may_host() || std::exchange(has_compared_files_, true)) return;
  const std::string line = too_few_for_nodes(config_, files_);
  if (!line.empty()) spdlog::warn("{}", line);
}

std::string RoundStore::prepare() {
  if (place_) return "";
  std::string host = config_.store.host;
  std::string addr = config_.store.master_addr;
  if (host.empty() && nodes_ != nullptr) host = nodes_->own_addr();
  if (addr.empty() && nodes_ != nullptr) addr = nodes_->public_addr();
  if (config_.rendezvous && config_.rendezvous->one_port) {
    place_ = Place{addr, config_.store.master_port};  // behind the service's port
    return "";
  }
  if (!config_.store.in_agent) {
    const auto port = config_.store.master_port != 0
                          ? Result<std::uint16_t>(config_.store.master_port)
                          : reserve_port(host, config_.store.ports);
    if (port) {
      place_ = Place{addr, *port};
      return "";
    }
    const bool elsewhere = port.error().value() == EADDRNOTAVAIL;
    return elsewhere ? not_our_address(config_, host)
                     : fmt::format("there is no free port on {}: {}", host, port.error().message());
  }
  auto listener =
      config_.store.master_port == 0 && config_.store.ports
          ? rdzv::listen_store(host, config_.store.ports->first, config_.store.ports->last)
          : rdzv::listen_store(host, config_.store.master_port);
  if (listener) {
    place_ = Place{addr, listener->port};
    listener_.emplace(std::move(*listener));
    return "";
  }
  if (listener.error().value() == EADDRNOTAVAIL) return not_our_address(config_, host);
  if (config_.store.master_port == 0 && config_.store.ports) {
    return fmt::format("the store finds no free port from {} to {} on {}: {} (--port-range)",
                       config_.store.ports->first, config_.store.ports->last, host,
                       listener.error().message());
  }
  const auto owner = listener.error().value() == EADDRINUSE
                         ? rdzv::port_owner(config_.store.master_port)
                         : std::optional<std::string>();
  return fmt::format(
      "the store cannot listen on {} port {}: {}{}; choose another port, with --master-port or in "
      "--rdzv-endpoint (0: any free one)",
      host, config_.store.master_port, listener.error().message(),
      owner ? fmt::format(" ({} has it)", *owner) : "");
}

ErrorCode RoundStore::offer(bool is_ours) {
  place_.reset();
  if (!is_ours) listener_.reset();  // another node's is used
  is_wanted_ = is_ours;
  hand_over_clients();
  if (!listener_) return {};
  ErrorCode failed;
  listening_.emplace(context_).assign(listener_->fd.get(), failed);
  if (failed) {
    listening_.reset();
    listener_.reset();
    return failed;
  }
  static_cast<void>(listener_->fd.release());  // Asio closes it
  listening_->async_wait(boost::asio::posix::descriptor_base::wait_read,
                         [this, listener = std::make_shared<rdzv::StoreListener>(
                                    std::move(*listener_))](ErrorCode ec) {
                           if (ec || !listening_) return;
                           listener->fd.reset(listening_->release());
                           start(std::move(*listener));
                         });
  listener_.reset();
  return {};
}

/// The store's thread starts with its first client.
void RoundStore::hand_over_clients() {
  const bool has_to_start =
      is_wanted_ && !server_ && nodes_ != nullptr && nodes_->has_store_clients();
  if (!has_to_start) return;
  start({UniqueFd(), config_.store.master_addr, config_.store.master_port});
  if (server_) nodes_->open_store(*server_);
}

void RoundStore::start(rdzv::StoreListener listener) {
  rdzv::StoreSettings settings;
  settings.check_uid = !config_.store.users.any;
  settings.allowed_uids.assign(config_.store.users.uids.begin(), config_.store.users.uids.end());
  settings.connections_max = std::min(settings.connections_max, clients_max());
  settings.reset_on_close = true;  // what is left of the old group must not wait for answers
  auto server = rdzv::StoreServer::start(std::move(listener), std::move(settings));
  if (server) {
    server_.emplace(std::move(*server));
  } else {
    failed_(rdzv::StoreServer::why_not_started(server.error()));
  }
}

void RoundStore::end() {
  is_wanted_ = false;
  listening_.reset();
  has_newer_clients_ = has_newer_clients();
  if (nodes_ != nullptr) nodes_->close_store();
  server_.reset();
}

bool RoundStore::has_newer_clients() const {
  return server_ ? server_->counters().newer_clients > 0 : has_newer_clients_;
}

}  // namespace ddprun::agent
