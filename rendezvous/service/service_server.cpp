#include "rendezvous/service/service_server.hpp"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>

#include "base/boot_clock.hpp"
#include "base/start_thread.hpp"
#include "rendezvous/service/running_file.hpp"
#include "rendezvous/service/service_acceptor.hpp"
#include "rendezvous/service/service_log.hpp"
#include "rendezvous/service/service_peer.hpp"
#include "rendezvous/store/peer_name.hpp"

namespace ddprun::rdzv {

namespace asio = boost::asio;

class ServiceServer::Impl {
 public:
  Impl(StoreListener listener, ServiceServerSettings settings)
      : addr_(std::move(listener.addr)),
        port_(listener.port),
        settings_(std::move(settings)),
        past_(settings_.journal ? settings_.journal->take_past() : JournalPast{}),
        clock_shift_(past_.clock_shift),
        secrets_(settings_.secrets),
        running_file_(make_running_file()),
        core_(service_settings(), now()),
        log_(context_, settings_.on_warning, settings_.on_info),
        acceptor_(context_, acceptor_settings(), acceptor_events()),
        core_timer_(context_),
        newcomers_(settings_.newcomers),
        events_(std::make_shared<ServicePeer::Events>(events())) {
    if (secrets_) follow_tenants();
    replay();
  }
  ~Impl() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
    for (auto& [id, peer] : peers_) peer->reset();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ErrorCode start(UniqueFd listener) {
    if (listener) {
      if (const ErrorCode failed = acceptor_.listen(std::move(listener))) return failed;
    }
    auto thread = start_thread("rendezvous", [this] {
      const auto forever = asio::make_work_guard(context_);  // while there is no listener
      context_.run();
    });
    if (!thread) return thread.error();
    thread_ = std::move(*thread);
    return {};
  }

  Result<UniqueFd> connect_locally() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
      return last_system_error();
    asio::post(context_,
               [this, fd = std::make_shared<UniqueFd>(ends[0])] { add(std::move(*fd), ""); });
    return UniqueFd(ends[1]);
  }

  void adopt(UniqueFd connection) {
    asio::post(context_, [this, fd = std::make_shared<UniqueFd>(std::move(connection))] {
      if (peers_.size() + acceptor_.waiting() >= settings_.connections_max) {
        return log_.warn_of_peer(fmt::format("closed {}: the limit of {} connections is reached",
                                             peer_name(fd->get()), settings_.connections_max));
      }
      acceptor_.adopt(std::move(*fd));
    });
  }

  void node_gone(NodeGone gone) {
    asio::post(context_, [this, gone = std::move(gone)] { handle(gone); });
  }

  const std::string addr_;
  const std::uint16_t port_;
  std::atomic<bool> idle_{true}, ending_{false}, has_sessions_{false};
  std::atomic<std::size_t> agents_{0};

 private:
  // ---- connections ----

  [[nodiscard]] ServiceAcceptor::Settings acceptor_settings() const {
    return {settings_.check_uid && !has_secret(), settings_.allowed_uids};
  }

  ServiceAcceptor::Events acceptor_events() {
    ServiceAcceptor::Events events;
    events.make_room = [this](const std::string& addr) { return make_room(addr); };
    events.free_descriptor = [this] { return free_descriptor(); };
    events.admitted = [this](UniqueFd fd, std::string addr) {
      add(std::move(fd), std::move(addr));
    };
    events.refused = [this](const std::string& line) { log_.warn_of_peer(line); };
    return events;
  }

  void add(UniqueFd fd, std::string addr) {
    const ConnectionId id = ++connections_;
    auto peer = std::make_shared<ServicePeer>(context_, id, std::move(addr), events_);
    proto::ControlChannel::Settings channel;
    channel.side = proto::Side::service;
    channel.hello = proto::rendezvous_hello();
    channel.hello.munge = settings_.credential;
    channel.secret = settings_.secret;
    if (secrets_)
      channel.secret_for = [this](const std::string& run_id) { return secret_for(run_id); };
    if (peer->begin(std::move(fd), std::move(channel))) return;
    newcomers_.add(id, peer->addr(), now());
    peer->expect_within(settings_.silent_within);
    peers_.emplace(id, std::move(peer));
  }

  [[nodiscard]] bool has_secret() const { return secrets_ || !settings_.secret.empty(); }

  std::string secret_for(const std::string& run_id) {
    std::string secret = secrets_->secret_for(run_id);
    follow_tenants();
    return secret;
  }

  void follow_tenants() {
    for (const std::string& line : secrets_->take_warnings()) log_.warn(line);
    const std::uint64_t changes = secrets_->changes();
    if (std::exchange(tenant_changes_, changes) != changes)
      handle(TenantsChanged{secrets_->tenants()});
  }

  /// Connections that say nothing must not keep those out that would.
  bool make_room(const std::string& addr) {
    const bool is_full = peers_.size() >= settings_.connections_max;
    if (!is_full && newcomers_.has_place()) return true;
    if (!is_full && settings_.has_few_files) warn_of_descriptors();
    const auto id = is_full ? newcomers_.oldest(now()) : newcomers_.to_close_for(addr, now());
    if (!id) return false;
    std::shared_ptr<ServicePeer>(peers_.at(*id))->make_way_for_place();
    return true;
  }

  /// Once.
  void warn_of_descriptors() {
    if (std::exchange(has_told_of_descriptors_, true)) return;
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    log_.warn(fmt::format(
        "connections wait, because this process may have no more than {} open files: raise the "
        "limit (ulimit -n); agents connected: {}",
        files.rlim_cur, peers_.size() - newcomers_.size()));
  }

  bool free_descriptor() {
    warn_of_descriptors();
    const auto id = newcomers_.oldest(now());
    if (!id) return false;
    std::shared_ptr<ServicePeer>(peers_.at(*id))->make_way_for_descriptor();
    return true;
  }

  // ---- what peers do ----

  ServicePeer::Events events() {
    ServicePeer::Events events;
    events.encrypter = settings_.encrypter;
    events.controls = [this](ServicePeer& peer) { peer.expect_within(settings_.open_within); };
    events.opened = [this](ServicePeer& peer) {
      if (settings_.standby) return send_elsewhere(peer);
      handle(ConnectionOpened{peer.id(), peer.hello()->run_id, peer.addr(), peer.path()});
    };
    events.said = [this](ServicePeer& peer, proto::ClientMessage message) {
      if (settings_.standby) return;
      const bool is_newcomer = newcomers_.contains(peer.id());
      if (is_newcomer) peer.expect_within(settings_.open_within);
      handle(ClientSaid{peer.id(), std::move(message)});
      if (is_newcomer) acceptor_.serve_waiting();
    };
    events.ended = [this](ServicePeer& peer, bool cleanly, const std::string& why) {
      if (!why.empty()) log_.warn_of_peer(fmt::format("closed {}: {}", peer.name(), why));
      const ConnectionId id = peer.id();
      if (const std::string* run_id = peer.claimed_run_id(); run_id && peer.lacks_secret())
        handle(ProofMissing{*run_id, peer.addr()});
      newcomers_.remove(id);
      peers_.erase(id);
      handle(ConnectionEnded{id, cleanly});
      acceptor_.serve_waiting();
    };
    events.speaks_c10d = [this](ServicePeer& peer, UniqueFd fd) {
      newcomers_.remove(peer.id());
      peers_.erase(peer.id());
      acceptor_.serve_waiting();
      if (settings_.on_store_client) return settings_.on_store_client(std::move(fd));
      log_.warn_of_peer(
          fmt::format("closed {}: its protocol is that of PyTorch's store; a torchrun "
                      "agent cannot take part in a job of ddprun agents",
                      peer.name()));
    };
    events.is_silent = [this](ServicePeer&) { return settings_.on_store_client != nullptr; };
    return events;
  }

  void send_elsewhere(ServicePeer& peer) {
    const std::shared_ptr<ServicePeer> kept = peers_.at(peer.id());  // it may end by that
    kept->send(settings_.standby());
    kept->flush();
    kept->close_in_order();
  }

  // ---- the core ----

  /// By which the core lives: it goes on through restarts of this process and of the machine.
  [[nodiscard]] Clock::time_point now() const { return boot_clock_now() + clock_shift_; }

  [[nodiscard]] std::optional<RunningFile> make_running_file() const {
    if (settings_.journal || settings_.running_folder.empty()) return std::nullopt;
    RunningFile::remove_old(settings_.running_folder, now());
    return RunningFile(addr_, port_, settings_.service.only_run_id, settings_.running_folder);
  }

  [[nodiscard]] ServiceSettings service_settings() const {
    ServiceSettings settings = settings_.service;
    settings.has_secret = has_secret();
    settings.secret_by_munge = !settings_.credential.empty();
    if (settings_.journal) {
      settings.remembers = past_.is_complete;
      if (!settings.snapshots) settings.snapshots.emplace();
    } else if (running_file_) {
      settings.past_lease = running_file_->past_lease(now());
    }
    return settings;
  }

  void replay() {
    const JournalPast past = std::exchange(past_, {});
    for (const std::string& line : past.warnings) log_.warn(line);
    for (const JobRecord& record : past.records) core_.replay(record);
    const ServiceActions actions = core_.begin(now());
    if (Journal* const journal = settings_.journal.get()) {
      for (const std::string& run_id : actions.forget) journal->forget(run_id);
      for (const JobRecord& record : actions.records) journal->append(record);
      if (!actions.records.empty())
        for (const std::string& line : journal->commit()) log_.warn(line);
    }
    note_jobs();
    follow_deadline();
  }

  void note_jobs() {
    idle_.store(core_.is_idle(), std::memory_order_relaxed);
    has_sessions_.store(core_.has_sessions(), std::memory_order_relaxed);
    ending_.store(core_.is_ending(), std::memory_order_relaxed);
  }

  /// What follows from an event waits until the event is durable, and what comes after it does not
  /// overtake it. All events of one turn of the loop become durable at once.
  void handle(const ServiceEvent& event) {
    if (is_over_ || settings_.standby) return;
    ServiceActions actions = core_.on(event, now());
    if (core_.is_ending()) ending_ = true;  // before any agent is told
    follow_deadline();
    for (const ConnectionId id : actions.attached) {
      newcomers_.remove(id);
      peers_.at(id)->expect_forever();
    }
    Journal* const journal = settings_.journal.get();
    if (running_file_) running_file_->follow(core_.lease_of_workers(now()), now());
    const bool is_due = journal != nullptr && !(actions.records.empty() && actions.forget.empty());
    if (!is_due && uncommitted_.empty()) return carry_out(actions);
    for (const JobRecord& record : actions.records) journal->append(record);
    for (const JobSnapshot& snapshot : actions.snapshots) journal->replace(snapshot);
    for (const std::string& run_id : actions.forget) journal->forget(run_id);
    uncommitted_.push_back(std::move(actions));
    if (uncommitted_.size() == 1) asio::post(context_, [this] { commit(); });
  }

  void commit() {
    const auto begun = now();
    for (const std::string& line : settings_.journal->commit()) log_.warn(line);
    newcomers_.leave_out(now() - begun);
    for (ServiceActions& actions : std::exchange(uncommitted_, {})) carry_out(actions);
  }

  void carry_out(ServiceActions& actions) {
    if (is_over_) return;
    if (settings_.journal && !settings_.journal->may_answer()) return end_all();
    for (const std::string& line : actions.log) log_.inform(line);
    for (const std::string& line : actions.warnings) log_.warn(line);
    std::vector<std::shared_ptr<ServicePeer>> spoken_to;  // each gets all that it is sent at once
    for (ServiceSend& send : actions.sends) {
      if (auto* status = std::get_if<proto::Status>(&send.message); status && settings_.journal) {
        status->journal = true;
        status->durable = settings_.journal->is_durable();
      }
      const auto found = peers_.find(send.to);
      if (found == peers_.end()) continue;
      const std::shared_ptr<ServicePeer> peer = found->second;  // it may end by that
      peer->send(send.message);
      if (spoken_to.empty() || spoken_to.back() != peer) spoken_to.push_back(peer);
    }
    for (const auto& peer : spoken_to) peer->flush();
    for (const ConnectionId id : actions.closes) {
      const auto found = peers_.find(id);
      if (found == peers_.end()) continue;
      std::shared_ptr<ServicePeer>(found->second)->close_in_order();
    }
    note_jobs();
    agents_.store(peers_.size() - newcomers_.size(), std::memory_order_relaxed);
  }

  /// Another service has the jobs. Nobody is told anything any more, and whatever comes is dropped.
  void end_all() {
    is_over_ = true;
    ending_ = false;
    for (auto& [id, peer] : std::exchange(peers_, {})) {
      newcomers_.remove(id);
      peer->reset();
    }
  }

  void follow_deadline() {
    if (deadline_ == core_.deadline()) return;
    deadline_ = core_.deadline();
    core_timer_.cancel();
    if (!deadline_) return;
    core_timer_.expires_after(*deadline_ - now());
    core_timer_.async_wait([this](ErrorCode ec) {
      if (ec) return;
      deadline_.reset();
      handle(DeadlinePassed{});
    });
  }

  const ServiceServerSettings settings_;
  asio::io_context context_{1};
  JournalPast past_;  // until it is replayed
  const Clock::duration clock_shift_;
  std::optional<SecretFolder> secrets_;  // a copy: another server may have been given the same
  std::optional<RunningFile> running_file_;
  ServiceCore core_;
  std::vector<ServiceActions> uncommitted_;
  ServiceLog log_;
  ServiceAcceptor acceptor_;
  asio::steady_timer core_timer_;
  Newcomers newcomers_;  // each is a peer
  bool has_told_of_descriptors_ = false, is_over_ = false;
  std::uint64_t tenant_changes_ = 0;  // of those that the core knows
  const std::shared_ptr<const ServicePeer::Events> events_;
  std::unordered_map<ConnectionId, std::shared_ptr<ServicePeer>> peers_;
  ConnectionId connections_ = 0;
  std::optional<Clock::time_point> deadline_;
  std::thread thread_;
};

Result<ServiceServer> ServiceServer::start(StoreListener listener, ServiceServerSettings settings) {
  UniqueFd fd = std::move(listener.fd);
  try {
    auto impl = std::make_unique<Impl>(std::move(listener), std::move(settings));
    if (const ErrorCode failed = impl->start(std::move(fd))) return failed;
    return ServiceServer(std::move(impl));
  } catch (const boost::system::system_error& error) {  // Asio's own descriptors
    return error.code();
  }
}

ServiceServer::ServiceServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ServiceServer::ServiceServer(ServiceServer&&) noexcept = default;
ServiceServer::~ServiceServer() = default;

const std::string& ServiceServer::addr() const { return impl_->addr_; }
std::uint16_t ServiceServer::port() const { return impl_->port_; }
Result<UniqueFd> ServiceServer::connect_locally() { return impl_->connect_locally(); }
void ServiceServer::adopt(UniqueFd connection) { impl_->adopt(std::move(connection)); }
void ServiceServer::node_gone(std::string run_id, std::string node) {
  impl_->node_gone({std::move(run_id), std::move(node)});
}
std::size_t ServiceServer::agents() const { return impl_->agents_.load(std::memory_order_relaxed); }
bool ServiceServer::is_idle() const { return impl_->idle_.load(std::memory_order_relaxed); }
bool ServiceServer::has_sessions() const { return impl_->has_sessions_.load(); }
bool ServiceServer::is_ending() const { return impl_->ending_.load(std::memory_order_relaxed); }

}  // namespace ddprun::rdzv
