// The way to the other nodes of the job: where the rendezvous service is, a session with it, and
// what the warden has to know of that.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "agent/control/agent_loop.hpp"
#include "base/boot_clock.hpp"
#include "base/bounded_write.hpp"
#include "base/no_descriptor.hpp"
#include "machine/processes/process_tree.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

constexpr auto kLingerStep = 2ms;
constexpr auto kSayLingerAfter = 2s;
constexpr auto kOwnNameLimit = 2s;  // for a resolver that does not know it
// What the service itself waits beyond a lease, and some of a slow machine.
constexpr auto kLingerMargin = 3s;

/// Unique among all agents that ever were.
std::string new_agent_id(const std::string& node_name) {
  std::random_device random;
  return fmt::format("{}-{}-{:08x}", node_name, getpid(), random());
}

}  // namespace

/// First of all.
void Agent::meet() {
  const RendezvousSettings& settings = *config_.rendezvous;
  ServiceHost::Events events_of_host;
  events_of_host.tell = [this](const std::string& line) { notice(line); };
  events_of_host.failed = [this](const std::string& problem) { cannot_meet(problem); };
  if (settings.one_port) {
    handover_.emplace(rdzv::StoreHandover::Settings{
        .on_first_client = [this] { asio::post(context_, [this] { hand_over_clients(); }); }});
    events_of_host.on_store_client = [this](UniqueFd fd) { handover_->offer(std::move(fd)); };
  }
  host_.emplace(context_, config_, std::move(events_of_host));
  rdzv::SessionSettings session;
  session.agent = new_agent_id(config_.node_name);
  session.service = to_string(settings.endpoint);
  session.lease = settings.lease;
  session.join_timeout = config_.job.join_timeout;
  session.lost_timeout = settings.lost_timeout;
  session.seed = std::random_device()();
  rdzv::ServicePlace place;
  place.host = settings.endpoint.host;
  place.port = *settings.endpoint.port;
  place.run_id = config_.run_id;
  place.secret = settings.secret;
  place.needs_proof = settings.needs_proof;
  place.own = &*host_;
  RemoteMembership::Events events;
  events.said = [this](proto::MembershipMessage message) { hear(std::move(message)); };
  events.tell = [this](const std::string& line) { notice(line); };
  events.lease_moved = [this](rdzv::SessionClock::time_point until) {
    lease_end_ = until;
    const NodeState state = machine_.state();
    const bool workers_may_run = state != NodeState::waiting && state != NodeState::done &&
                                 state != NodeState::ending && state != NodeState::over;
    if (workers_may_run) keep_lease();
  };
  events.connected = [this] { note_connection(); };
  events.disconnected = [this] {
    if (std::exchange(is_connection_held_, false)) link_.hold_connection(-1);
  };
  auto remote = std::make_unique<RemoteMembership>(context_, std::move(session), std::move(place),
                                                   std::move(events));
  session_ = remote.get();
  membership_ = std::move(remote);
  if (const ErrorCode failed = session_->start())
    cannot_meet("ddprun cannot wait for the rendezvous: " + why_no_descriptor(failed));
}

/// Nobody knows of this node yet, so there is nobody to leave.
void Agent::cannot_meet(const std::string& problem) {
  // Its handlers may be under way.
  session_->stop();
  session_ = nullptr;
  unmet_ = std::move(membership_);
  handle(Prepared{"", 0, 0, false, problem});
}

/// By the way to the service others reach this node, too.
void Agent::note_connection() {
  if (host_->is_here()) {
    own_addr_ = host_->listen_addr();  // our own connection to it crosses no network
  } else {
    own_addr_ = session_->connection().local_addr();
    link_.hold_connection(session_->connection().descriptor());
    is_connection_held_ = true;
    // The service is on this machine, under a name by which others see another address of it.
    const std::string& host = config_.rendezvous->endpoint.host;
    if (is_loopback(own_addr_) && !is_loopback(host) && host != "localhost")
      own_addr_ = own_addr_.find(':') == std::string::npos ? "0.0.0.0" : "::";
  }
  if (!config_.rendezvous->local_addr.empty()) own_addr_ = config_.rendezvous->local_addr;
  const bool is_unproven = !host_->is_here() && !config_.rendezvous->secret.empty() &&
                           !session_->connection().is_proven();
  if (is_unproven && !std::exchange(is_unproven_told_, true)) {
    spdlog::warn(
        "the rendezvous at {} has no secret, so this node's secret proves nothing; "
        "--rdzv-auth=required refuses such a rendezvous",
        to_string(config_.rendezvous->endpoint));
  }
  if (std::exchange(is_met_, true)) return;
  // The workers' environment depends on this machine's own name.
  name_timer_.expires_after(kOwnNameLimit);
  name_timer_.async_wait([this](ErrorCode) { obey(Prepare{}); });
  look_at_own_name();
}

std::string Agent::public_addr() const {
  if (!config_.rendezvous || !config_.rendezvous->local_addr.empty()) return own_addr_;
  if (host_->is_here()) return host_->public_addr();
  const bool any = own_addr_ == "0.0.0.0" || own_addr_ == "::";
  return any ? config_.rendezvous->endpoint.host : own_addr_;
}

/// Gloo meets at the address of the machine's own name. Where that is a loopback address, as on
/// Debian, the workers of different nodes would never meet.
void Agent::look_at_own_name() {
  resolver_.emplace(context_);
  const auto take = [this](const Result<rdzv::Addresses>& found) {
    name_timer_.cancel();
    std::string addr = found ? rdzv::numeric_host(**found) : "";
    if (!addr.empty() && !is_loopback(addr)) return;
    const std::string interface = rdzv::interface_towards_others(own_addr_);
    if (interface.empty()) return;
    starter_.add_to_environment(proto::env::kGlooInterface, interface);
    spdlog::info("{} is {} here: the workers get {}={}", config_.node_name,
                 addr.empty() ? "no address" : addr, proto::env::kGlooInterface, interface);
  };
  if (resolver_->look_up(config_.node_name, 0, take)) name_timer_.cancel();
}

/// The warden kills the workers when it is over, should this process not do it.
void Agent::keep_lease() {
  if (lease_end_) link_.lease(lease_end_);
}

/// A fenced round: all of it is sent SIGKILL and runs no code of its own any more. How long the
/// kernel needs to end it, a GPU driver a second or more, is no reason for the warden to end this
/// agent, too.
void Agent::kill_for_the_fence() {
  const NodeRound* round = machine_.round();
  if (!config_.rendezvous || round == nullptr || !round->stop || !round->stop->kill) return;
  if (link_.cgroup() != nullptr) link_.cgroup()->kill();
  std::set<pid_t> sent;
  bool is_new = true;
  while (std::exchange(is_new, false)) {  // some may be forked meanwhile
    for (const machine::ProcessEntry& process : machine::live_descendants()) {
      if (!sent.insert(process.pid).second) continue;
      machine::signal_process(process, SIGKILL);
      is_new = true;
    }
  }
  link_.lease(boot_clock_now() + config_.stop.kill_timeout);
}

/// The store is behind the service's port, and its thread starts with its first client.
void Agent::hand_over_clients() {
  const bool has_to_start = is_store_wanted_ && handles_ && !handles_->store && host_->is_here() &&
                            handover_->parked() > 0;
  if (!has_to_start) return;
  start_store({UniqueFd(), config_.master_addr, config_.master_port});
  if (handles_->store) handover_->open(*handles_->store);
}

/// Until the other nodes know the outcome, or the user does not wait for that.
void Agent::linger() {
  rdzv::ServiceServer* server = host_ ? host_->server() : nullptr;
  if (server == nullptr) return;
  const auto began_at = Clock::now();
  const auto limit = began_at + config_.rendezvous->lease + kLingerMargin;
  link_.ends_within(std::chrono::ceil<std::chrono::milliseconds>(limit - began_at + kLingerMargin));
  bool said = false;
  while (!server->is_idle() && Clock::now() < limit) {
    if (!said && Clock::now() >= began_at + kSayLingerAfter) {
      said = true;
      write_within(STDERR_FILENO,
                   "ddprun: waiting until the other nodes know how the job ended; Ctrl-C stops "
                   "waiting\n",
                   kSayLingerAfter);
    }
    pollfd signal{link_.socket(), POLLIN, 0};
    if (poll(&signal, 1, static_cast<int>(kLingerStep.count())) <= 0) continue;
    warden::SignalRecord record;
    if (recv(link_.socket(), &record, sizeof record, MSG_DONTWAIT) != sizeof record) return;
    const auto& ends = config_.stop.signals;
    if (std::find(ends.begin(), ends.end(), record.signal) != ends.end()) return;
  }
}

}  // namespace ddprun::agent
