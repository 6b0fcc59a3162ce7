#include "rendezvous/service/service_server.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>

#include "base/boot_clock.hpp"
#include "base/small_file.hpp"
#include "base/start_thread.hpp"
#include "base/trimmed.hpp"
#include "rendezvous/service/clock_id.hpp"
#include "rendezvous/service/running_file.hpp"
#include "rendezvous/service/service_connections.hpp"
#include "rendezvous/service/service_log.hpp"

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
        core_timer_(context_),
        connections_(context_, settings_, log_, connection_events()) {
    if (secrets_) follow_tenants();
    replay();
  }
  ~Impl() { end(); }
  void end() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
    connections_.reset();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ErrorCode start(UniqueFd listener) {
    if (listener) {
      if (const ErrorCode failed = connections_.listen(std::move(listener))) return failed;
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
    asio::post(context_, [this, fd = std::make_shared<UniqueFd>(ends[0])] {
      connections_.add(std::move(*fd), "");
    });
    return UniqueFd(ends[1]);
  }

  void adopt(UniqueFd connection) {
    asio::post(context_, [this, fd = std::make_shared<UniqueFd>(std::move(connection))] {
      connections_.adopt(std::move(*fd));
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

  ServiceConnections::Events connection_events() {
    ServiceConnections::Events events;
    events.opened = [this](ServicePeer& peer) {
      handle(ConnectionOpened{peer.id(), peer.hello()->run_id, peer.addr(), peer.path()});
    };
    events.said = [this](ConnectionId id, proto::ClientMessage message) {
      handle(ClientSaid{id, std::move(message)});
    };
    events.refused = [this](const std::string& run_id, const std::string& addr, Lack lack) {
      handle(ConnectionRefused{run_id, addr, lack});
    };
    events.ended = [this](ConnectionId id, bool cleanly) { handle(ConnectionEnded{id, cleanly}); };
    if (secrets_)
      events.secret_for = [this](const std::string& run_id) { return secret_for(run_id); };
    return events;
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
    settings.clock = clock_id(
        trimmed(read_small_file("/proc/sys/kernel/random/boot_id").value_or("")), clock_shift_);
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
    for (const ConnectionId id : actions.attached) connections_.attach(id);
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
    connections_.leave_out(now() - begun);
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
      const auto peer = connections_.find(send.to);
      if (!peer) continue;
      peer->send(send.message);
      if (spoken_to.empty() || spoken_to.back() != peer) spoken_to.push_back(peer);
    }
    for (const auto& peer : spoken_to) peer->flush();
    for (const ConnectionId id : actions.closes) {
      if (const auto peer = connections_.find(id)) peer->close_in_order();
    }
    note_jobs();
    agents_.store(connections_.agents(), std::memory_order_relaxed);
  }

  /// Another service has the jobs. Nobody is told anything any more, and whatever comes is dropped.
  void end_all() {
    is_over_ = true;
    ending_ = false;
    connections_.reset();
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
  asio::steady_timer core_timer_;
  bool is_over_ = false;
  std::uint64_t tenant_changes_ = 0;  // of those that the core knows
  ServiceConnections connections_;
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

void ServiceServer::end() { impl_->end(); }
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
