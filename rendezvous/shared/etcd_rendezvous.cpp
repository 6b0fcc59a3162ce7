#include "rendezvous/shared/etcd_rendezvous.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <boost/asio/post.hpp>

#include "base/boot_clock.hpp"
#include "base/start_thread.hpp"
#include "rendezvous/etcd/etcd_keys.hpp"

namespace ddprun::rdzv {

namespace {

using namespace std::chrono_literals;

/// Long enough to ask three members.
constexpr Etcd::Limit kCallLimit{2'000};
constexpr Etcd::Limit kLastCallLimit{1'000};
/// The boot clock goes on while the machine sleeps, and a wait does not.
constexpr Clock::duration kWaitMost = 500ms;

std::string any_addr_like(const std::string& addr) {
  return addr.find(':') == std::string::npos ? "0.0.0.0" : "::";
}

bool is_hopeless(const EtcdFault& fault) {
  using Kind = EtcdFault::Kind;
  return fault.kind == Kind::not_trusted || fault.kind == Kind::needs_user ||
         fault.kind == Kind::too_old;
}

}  // namespace

EtcdRendezvous::EtcdRendezvous(boost::asio::io_context& context, EtcdRendezvousSettings settings)
    : context_(context),
      settings_(std::move(settings)),
      etcd_(std::make_unique<EtcdClient>(
          settings_.etcd.members, [this] { return is_ended_.load(); }, settings_.access)),
      candidacy_({.prefix = settings_.etcd.prefix, .look_every = settings_.slots_every},
                 boot_clock_now() + settings_.first_look) {}

EtcdRendezvous::~EtcdRendezvous() { end(); }

ErrorCode EtcdRendezvous::start(ServiceServerSettings service) {
  service_ = std::move(service);
  woken_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!woken_) return last_system_error();
  auto thread = start_thread("etcd-run", [this] { run(); });
  if (!thread) return thread.error();
  thread_ = std::move(*thread);
  return {};
}

void EtcdRendezvous::find(Done done) {
  const std::lock_guard lock(mutex_);
  question_ = std::move(done);
  if (woken_) eventfd_write(woken_.get(), 1);
}

bool EtcdRendezvous::is_candidate() const {
  const std::lock_guard lock(mutex_);
  return shared_ != nullptr;
}

bool EtcdRendezvous::is_ending() const {
  const std::lock_guard lock(mutex_);
  return shared_ && shared_->is_ending();
}

void EtcdRendezvous::end() {
  is_ended_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (shared_) shared_->begin_end();
    if (woken_) eventfd_write(woken_.get(), 1);
  }
  if (thread_.joinable()) thread_.join();
}

// ---- the thread ----

void EtcdRendezvous::run() {
  while (!is_ended_) {
    answer_question();
    if (settings_.may_host) stand();
    wait();
  }
  std::shared_ptr<SharedService> shared;
  {
    const std::lock_guard lock(mutex_);
    shared = std::move(shared_);
  }
  shared.reset();
  give_up_slot();
}

void EtcdRendezvous::wait() {
  const auto now = boot_clock_now();
  Clock::time_point next = now + kWaitMost;
  if (settings_.may_host) next = std::min(next, candidacy_.next_at());
  {
    const std::lock_guard lock(mutex_);
    if (question_) next = std::min(next, ask_at_);
  }
  const auto limit = std::max(next - now, Clock::duration(0));
  const int shared = shared_ ? shared_->descriptor() : -1;
  std::array<pollfd, 2> ready{{{woken_.get(), POLLIN, 0}, {shared, POLLIN, 0}}};
  poll(ready.data(), ready.size(),
       static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(limit).count()));
  eventfd_t count = 0;
  if ((ready[0].revents & POLLIN) != 0) eventfd_read(woken_.get(), &count);
  if ((ready[1].revents & POLLIN) != 0 && !is_ended_) shared_->follow();
}

// ---- which agent leads? ----

/// Many agents lose a leader at one time, and etcd is not asked by each of them without pause.
void EtcdRendezvous::answer_question() {
  Done question;
  {
    const std::lock_guard lock(mutex_);
    if (!question_ || boot_clock_now() < ask_at_) return;
    question = std::exchange(question_, nullptr);
  }
  const FoundService found = look_for_leader();
  ask_at_ = boot_clock_now() + settings_.ask_pause;
  boost::asio::post(context_, [question = std::move(question), found] { question(found); });
}

FoundService EtcdRendezvous::look_for_leader() {
  const EtcdKeys keys(settings_.etcd.prefix);
  const auto leader = etcd_->range({keys.leader(), "", 1, 0}, kCallLimit);
  if (!leader) return {{}, leader.error().reason, is_hopeless(leader.error())};
  if (!leader->keys.empty()) {
    const std::string& value = leader->keys[0].value;
    auto place = parse_endpoint(value);
    if (place && place->port) return {std::move(*place)};
    return {{}, fmt::format("the key {} in etcd has no HOST:PORT", keys.leader())};
  }
  if (was_welcomed_) {
    const auto clock = etcd_->range({keys.clock(), "", 1, 0}, kCallLimit);
    if (clock && clock->keys.empty())
      return {{}, "etcd has nothing of this job any more: it has ended without this node"};
  }
  std::string reason = "no agent of the job leads yet";
  if (!settings_.may_host) reason += ", and this one does not run the rendezvous";
  if (!trouble_.empty()) reason += ": " + trouble_;
  return {{}, std::move(reason)};
}

// ---- a candidate ----

void EtcdRendezvous::stand() {
  while (!is_ended_) {
    const auto request = candidacy_.next(boot_clock_now());
    if (!request) return;
    ask(*request);
  }
}

void EtcdRendezvous::ask(const SlotRequest& request) {
  const auto sent = boot_clock_now();
  if (std::holds_alternative<LookAtSlots>(request)) {
    listener_ = {};
    take(etcd_->range(candidacy_.look(), kCallLimit),
         [&](const EtcdPage& page) { candidacy_.looked(page, boot_clock_now()); });
  } else if (std::holds_alternative<GrantSlotLease>(request)) {
    take(etcd_->grant(CandidacySettings{}.ttl, kCallLimit),
         [&](const EtcdGrant& grant) { candidacy_.granted(grant, sent); });
  } else if (const auto* wanted = std::get_if<ClaimSlot>(&request)) {
    claim(*wanted);
  } else {
    take(etcd_->keep_alive(std::get<RenewSlot>(request).lease, kCallLimit),
         [&](std::chrono::seconds ttl) { candidacy_.renewed(ttl, sent); });
  }
}

template <class Answer, class Take>
void EtcdRendezvous::take(const EtcdResult<Answer>& answer, Take take) {
  if (!answer) return fail(answer.error());
  trouble_.clear();
  take(*answer);
}

void EtcdRendezvous::claim(const ClaimSlot& request) {
  if (!shared_) {
    if (std::string problem = listen(); !problem.empty())
      return fail({EtcdFault::Kind::refused, std::move(problem)});
  }
  take(etcd_->txn(candidacy_.claim(request, place_), kCallLimit),
       [&](const EtcdTxnAnswer& answer) { candidacy_.claimed(answer, boot_clock_now()); });
  if (!shared_ && candidacy_.is_candidate()) host();
}

void EtcdRendezvous::fail(const EtcdFault& fault) {
  trouble_ = fault.reason;
  candidacy_.failed(boot_clock_now());
}

/// Not empty: why it cannot. A claim that is repeated is one for the same place.
std::string EtcdRendezvous::listen() {
  if (listener_.fd) return "";
  std::string addr = settings_.local_addr.empty() ? etcd_->local_addr() : settings_.local_addr;
  std::string host = settings_.local_name.empty() ? addr : settings_.local_name;
  // A member of etcd runs here, under a name by which others see another address of this machine.
  const std::string& member = etcd_->member_host();
  if (settings_.local_addr.empty() && is_loopback(addr) && !leads_to_itself(member)) {
    addr = any_addr_like(addr);
    host = member;
  }
  auto listener = settings_.port_first != 0
                      ? listen_store(addr, settings_.port_first, settings_.port_last)
                      : listen_store(addr, 0);
  if (!listener)
    return fmt::format("this agent cannot listen on {}: {}", addr, listener.error().message());
  listener_ = std::move(*listener);
  place_ = ddprun::to_string(Endpoint(host, listener_.port));
  return "";
}

void EtcdRendezvous::host() {
  SharedService::Settings settings;
  settings.etcd = settings_.etcd;
  settings.access = settings_.access;
  settings.bound = Endpoint(listener_.addr, listener_.port);
  settings.place = place_;
  settings.listener = std::move(listener_.fd);
  const auto& encrypter = service_.encrypter;
  const bool is_open = service_.secret.empty() && !(encrypter && encrypter->checks_clients());
  const Endpoint bound = settings.bound;
  settings.service = service_;
  settings.may_begin_run = [this] { return !was_welcomed_.load(); };
  settings.on_warning = settings_.on_warning;
  settings.on_info = settings_.on_info;
  settings_.on_info(fmt::format("hosts a candidate for the rendezvous at {}", place_));
  auto started = SharedService::start(std::move(settings));
  if (!started) return give_up_hosting(started.error().message());
  if (is_open) settings_.on_open(bound);
  const std::lock_guard lock(mutex_);
  shared_ = std::move(*started);
  if (is_ended_) shared_->begin_end();
}

/// Another agent may be able to. Without an answer the slot ends with its lease.
void EtcdRendezvous::give_up_hosting(const std::string& reason) {
  [[maybe_unused]] const auto answer = etcd_->revoke(candidacy_.lease(), kCallLimit);
  candidacy_.gave_up(boot_clock_now());
  trouble_ = "this agent cannot host the rendezvous: " + reason;
  settings_.on_warning(
      fmt::format("cannot host the rendezvous: {}; it gives its slot up, and tries again", reason));
}

void EtcdRendezvous::give_up_slot() {
  if (candidacy_.lease() == 0) return;
  EtcdClient last(
      settings_.etcd.members, [] { return false; }, settings_.access);
  // Where it is lost, the lease ends by itself.
  [[maybe_unused]] const auto answer = last.revoke(candidacy_.lease(), kLastCallLimit);
}

}  // namespace ddprun::rdzv
