#include "agent/link/node_link.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "base/boot_clock.hpp"
#include "base/bounded_write.hpp"
#include "base/no_descriptor.hpp"
#include "base/start_thread.hpp"
#include "proto/environment_names.hpp"
#include "rendezvous/client/credential_question.hpp"

namespace ddprun::agent {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLingerStep = 2ms;
constexpr auto kSayLingerAfter = 2s;
constexpr auto kCloseLimit = 1s;
constexpr auto kMungeLimit = 250ms;
constexpr auto kOwnNameLimit = 2s;  // for a resolver that does not know it
// What the service itself waits beyond a lease, and some of a slow machine.
constexpr auto kLingerMargin = 3s;
// 50 questions of all nodes a second while all is well, 5,000 while none leads.
constexpr auto kSlotsPausePerNode = 20ms;
constexpr auto kAskPausePerNode = 200us;
// All nodes start at one time, and three get a slot: most of them do not find it free.
constexpr auto kFirstLookPerNode = 2ms;
constexpr std::chrono::milliseconds kFirstLookMost = 2s;  // MAX may be more than ever come

/// Unique among all agents that ever were.
std::string new_agent_id(const std::string& node_name) {
  std::random_device random;
  return fmt::format("{}-{}-{:08x}", node_name, getpid(), random());
}

/// For people.
std::string service_name(const RendezvousSettings& settings) {
  if (settings.etcd) return rdzv::to_string(*settings.etcd);
  std::string name = to_string(settings.endpoint);
  if (const auto& more = settings.more_ports; !more.empty())
    name += fmt::format(" to {}", more.back());
  for (const Endpoint& more : settings.more_endpoints) name += "," + to_string(more);
  return name;
}

rdzv::SessionSettings session_settings(const AgentConfig& config) {
  rdzv::SessionSettings session;
  session.agent = new_agent_id(config.node.name);
  session.service = service_name(*config.rendezvous);
  session.lease = config.rendezvous->lease;
  session.join_timeout = config.job.join_timeout;
  session.lost_timeout = config.rendezvous->lost_timeout;
  session.seed = std::random_device()();
  return session;
}

/// `finder`: null where the service is at the endpoint.
rdzv::ServicePlace service_place(const AgentConfig& config, ServiceHost& host,
                                 rdzv::ServiceFinder* finder) {
  const RendezvousSettings& settings = *config.rendezvous;
  rdzv::ServicePlace place;
  place.host = settings.endpoint.host;
  place.port = *settings.endpoint.port;
  place.run_id = config.run_id;
  place.secret = settings.secret;
  place.needs_proof = settings.needs_proof;
  place.credentials = settings.credentials;
  place.encrypter = settings.encrypter;
  place.finder = finder;
  if (finder != nullptr) return place;
  place.socket = settings.socket;
  place.more_ports = settings.more_ports;
  place.more_hosts = settings.more_endpoints;
  place.own = &host;
  return place;
}

/// Not on a cluster without MUNGE.
bool can_use_credentials(const RendezvousSettings& settings) {
  rdzv::CredentialQuestion question(
      settings.credentials, [](proto::Credentials& credentials) -> rdzv::CredentialQuestion::Text {
        const auto made = proto::new_shown_secret(credentials);
        if (!made) return {boost::system::in_place_error, made.error()};
        return {boost::system::in_place_value, made->credential};
      });
  const auto* answer = question.answer_within(kMungeLimit);
  return answer != nullptr && answer->has_value();
}

/// All nodes know how many there may be, so etcd is not asked more often by more of them.
/// Null: the service is at the endpoint.
std::unique_ptr<rdzv::EtcdRendezvous> over_etcd(asio::io_context& context,
                                                const AgentConfig& config) {
  const RendezvousSettings& settings = *config.rendezvous;
  if (!settings.etcd) return nullptr;
  rdzv::EtcdRendezvousSettings over;
  over.etcd = rdzv::etcd_place_of_run(*settings.etcd, config.run_id);
  over.access = settings.etcd_access;
  over.local_addr = settings.own.addr;
  over.local_name = settings.own.typed_addr;
  const auto& encrypter = settings.encrypter;
  over.may_host = settings.may_host && (!encrypter || encrypter->why_no_service().empty());
  if (config.store.ports) {
    over.port_first = config.store.ports->first;
    over.port_last = config.store.ports->last;
  }
  over.slots_every = std::max(over.slots_every, kSlotsPausePerNode * config.job.max_nodes);
  over.ask_pause = std::max(over.ask_pause, std::chrono::ceil<std::chrono::milliseconds>(
                                                kAskPausePerNode * config.job.max_nodes));
  const auto spread = std::min(kFirstLookPerNode * config.job.max_nodes, kFirstLookMost);
  over.first_look = std::chrono::milliseconds(std::random_device()() % (spread.count() + 1));
  over.on_warning = [&context](const std::string& line) {
    asio::post(context, [line] { spdlog::warn("the rendezvous here: {}", line); });
  };
  over.on_info = [&context](const std::string& line) {
    asio::post(context, [line] { spdlog::info("the rendezvous here: {}", line); });
  };
  over.on_open = [&context](const Endpoint& bound) {
    if (is_loopback(bound.host)) return;
    asio::post(context, [place = to_string(bound)] { warn_of_no_secret(place); });
  };
  return std::make_unique<rdzv::EtcdRendezvous>(context, std::move(over));
}

}  // namespace

void OwnName::look_up(const std::string& name, std::function<void(const std::string& addr)> found,
                      std::function<void()> settled) {
  timer_.expires_after(kOwnNameLimit);
  timer_.async_wait([this, then = std::move(settled)](ErrorCode) {
    is_settled_ = true;
    then();
  });
  const auto take = [this, then = std::move(found)](const Result<Addresses>& addresses) {
    timer_.cancel();
    then(addresses ? numeric_host(**addresses) : "");
  };
  if (resolver_.look_up(name, 0, take)) timer_.cancel();
}

NodeLink::NodeLink(asio::io_context& context, const AgentConfig& config, warden::WardenLink& warden,
                   Events events)
    : context_(context),
      config_(config),
      settings_(*config.rendezvous),
      warden_(warden),
      events_(std::move(events)),
      host_(context, config, host_events()),
      over_etcd_(over_etcd(context, config)),
      session_(context, session_settings(config), service_place(config, host_, over_etcd_.get()),
               session_events()),
      needs_host_(config.chaos && config.chaos->has(ChaosFault::service)),
      own_name_(context),
      cut_timer_(context) {}

ServiceHost::Events NodeLink::host_events() {
  ServiceHost::Events events;
  events.notice = events_.notice;
  events.failed = [this](const std::string& problem) { fail(problem); };
  if (!settings_.one_port) return events;
  events.on_store_client = [this](UniqueFd fd) { handover_->offer(std::move(fd)); };
  return events;
}

RemoteMembership::Events NodeLink::session_events() {
  RemoteMembership::Events events;
  events.message = events_.message;
  events.notice = events_.notice;
  events.lease_moved = [this](rdzv::SessionClock::time_point until) {
    lease_end_ = until;
    if (events_.has_workers()) keep_lease();
  };
  events.connected = [this] { note_connection(); };
  events.disconnected = [this] {
    if (std::exchange(is_connection_held_, false)) warden_.hold_connection(-1);
  };
  events.welcomed = [this](const proto::Welcome& welcome) { note_welcome(welcome); };
  return events;
}

void NodeLink::start(const ConnectionShares& shares) {
  host_.set_newcomers_max(shares.newcomers);
  if (settings_.one_port)
    handover_.emplace(rdzv::StoreHandover::Settings{
        .parked_max = shares.parked,
        .on_first_client = [this] { asio::post(context_, events_.store_is_wanted); }});
  if (over_etcd_) {
    if (const std::string problem = start_over_etcd(shares.newcomers); !problem.empty())
      return fail(problem);
  }
  if (const ErrorCode failed = session_.start())
    fail("ddprun cannot wait for the rendezvous: " + why_no_descriptor(failed));
}

/// Each candidate has a secret of its own, if they make one: a node reads that of the one that
/// leads. Not empty: why this node cannot take part.
std::string NodeLink::start_over_etcd(std::size_t newcomers_max) {
  OwnSecret secret;
  if (settings_.may_host) {
    auto made = own_secret(settings_);
    if (!made) return made.error();
    secret = std::move(*made);
  }
  const ErrorCode failed =
      over_etcd_->start(agent_service_settings(context_, config_, secret, newcomers_max));
  return failed ? "ddprun cannot ask etcd: " + why_no_thread(failed) : "";
}

/// The service does not know this node yet, so there is nothing to leave.
void NodeLink::fail(const std::string& problem) {
  session_.stop();
  has_failed_ = true;
  events_.failed(problem);
}

void NodeLink::end_in_order() {
  // Not by close(): with unread bytes that sends a reset, which proves nothing.
  if (const int socket = session_.connection().descriptor(); socket >= 0) shutdown(socket, SHUT_WR);
}

void NodeLink::send(proto::AgentMessage message) {
  if (!has_failed_) return session_.send(std::move(message));
  if (const auto* leave = std::get_if<proto::Leave>(&message))
    asio::post(context_,
               [this, finished = proto::outcome_of(*leave)] { events_.message(finished); });
}

/// By the way to the service others reach this node, too.
void NodeLink::note_connection() {
  if (host_.is_here()) {
    own_addr_ = host_.listen_addr();  // our own connection to it crosses no network
  } else {
    own_addr_ = session_.connection().local_addr();
    service_host_ = session_.connection().host();
    warden_.hold_connection(session_.connection().descriptor());
    is_connection_held_ = true;
    // The service is on this machine, under a name by which others see another address of it.
    if (is_loopback(own_addr_) && !leads_to_itself(service_host_))
      own_addr_ = own_addr_.find(':') == std::string::npos ? "0.0.0.0" : "::";
  }
  if (!settings_.own.addr.empty()) own_addr_ = settings_.own.addr;
  warn_if_unproven();
  if (std::exchange(is_met_, true)) return;
  // The workers' environment depends on it.
  own_name_.look_up(
      settings_.own.name.empty() ? config_.node.name : settings_.own.name,
      [this](const std::string& addr) { note_own_addr(addr); }, [this] { meet(); });
}

/// A rendezvous that nothing proves to be this user's.
void NodeLink::warn_if_unproven() {
  if (host_.is_here() || session_.connection().is_proven()) return;
  if (std::exchange(has_warned_unproven_, true)) return;
  if (!settings_.secret.empty()) {
    spdlog::warn(
        "the rendezvous at {} has no secret, so this node's secret proves nothing; "
        "--rdzv-auth=required refuses such a rendezvous",
        service_name(settings_));
  } else if (settings_.makes_secret && !settings_.encrypter && can_use_credentials(settings_)) {
    spdlog::warn(
        "the rendezvous at {} does not prove by MUNGE that it is of this node's user, so it may be "
        "another user's program; --rdzv-auth=munge refuses such a rendezvous, and an rdzvd needs a "
        "secret (ddprun --make-secret)",
        service_name(settings_));
  }
}

/// Not before it is known which service that is, where that matters.
void NodeLink::meet() {
  if (own_name_.is_settled() && !needs_host_ && !has_failed_) events_.ready();
}

void NodeLink::note_welcome(const proto::Welcome& welcome) {
  if (over_etcd_) over_etcd_->note_welcome();
  if (!needs_host_) return;
  if (welcome.in_agent) {
    needs_host_ = false;
    return meet();
  }
  asio::post(context_, [this] {
    if (has_failed_) return;
    fail(fmt::format(
        "--chaos with service: the rendezvous at {} is an rdzvd, and ddprun kills none, because "
        "other jobs may use it; leave service out, and kill that rdzvd yourself (kill -9 PID)",
        to_string(settings_.endpoint)));
  });
}

void NodeLink::cut_off(std::chrono::nanoseconds length) {
  session_.cut();
  cut_timer_.expires_after(length);
  cut_timer_.async_wait([this](ErrorCode ec) {
    if (!ec) session_.heal();
  });
}

std::string NodeLink::public_addr() const {
  if (!settings_.own.addr.empty()) return own_addr_;
  if (host_.is_here()) return host_.public_addr();
  const bool any = own_addr_ == "0.0.0.0" || own_addr_ == "::";
  return any ? service_host_ : own_addr_;
}

/// Gloo meets at the address of the machine's own name. Where that is a loopback address, as on
/// Debian, the workers of different nodes would never meet.
void NodeLink::note_own_addr(const std::string& addr) {
  if (!addr.empty() && !is_loopback(addr)) return;
  const std::string interface = rdzv::interface_towards_others(own_addr_);
  if (interface.empty()) return;
  events_.add_to_environment(proto::env::kGlooInterface, interface);
  spdlog::info("{} is {} here: the workers get {}={}", config_.node.name,
               addr.empty() ? "no address" : addr, proto::env::kGlooInterface, interface);
}

/// The warden kills the workers when it is over, should this process not do it.
void NodeLink::keep_lease() {
  if (lease_end_) warden_.lease(lease_end_);
}

void NodeLink::close_store() {
  if (handover_) handover_->close();
}

/// Until the other nodes know the outcome, or the user does not wait for that.
void NodeLink::linger() {
  if (over_etcd_ && over_etcd_->is_candidate()) wait_for_close();
  if (host_.server() != nullptr || over_etcd_) wait_for_others();
  if (over_etcd_) over_etcd_->end();
}

/// The service may be here: it closes the connection once this node's last word is durable. Without
/// that the next one that leads would wait for this node's lease.
void NodeLink::wait_for_close() {
  pollfd connection{session_.connection().descriptor(), POLLRDHUP, 0};
  if (connection.fd >= 0)
    poll(&connection, 1, static_cast<int>(std::chrono::milliseconds(kCloseLimit).count()));
}

void NodeLink::wait_for_others() {
  const auto is_done = [this] {
    return over_etcd_ ? !over_etcd_->is_ending() : host_.server()->is_idle();
  };
  const auto began_at = Clock::now();
  const auto limit = began_at + settings_.lease + kLingerMargin;
  warden_.ends_within(
      std::chrono::ceil<std::chrono::milliseconds>(limit - began_at + kLingerMargin));
  bool has_noted = false;
  while (!is_done() && Clock::now() < limit) {
    if (!has_noted && Clock::now() >= began_at + kSayLingerAfter) {
      has_noted = true;
      write_within(STDERR_FILENO,
                   "ddprun: waiting until the other nodes know how the job ended; Ctrl-C stops "
                   "waiting\n",
                   kSayLingerAfter);
    }
    pollfd signal{warden_.socket(), POLLIN, 0};
    if (poll(&signal, 1, static_cast<int>(kLingerStep.count())) <= 0) continue;
    warden::SignalRecord record;
    if (recv(warden_.socket(), &record, sizeof record, MSG_DONTWAIT) != sizeof record) return;
    const auto& ends = config_.stop.signals;
    if (std::find(ends.begin(), ends.end(), record.signal) != ends.end()) return;
  }
}

}  // namespace ddprun::agent
