#include "rendezvous/shared/shared_service.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/boot_clock.hpp"
#include "rendezvous/etcd/etcd_client.hpp"

namespace ddprun::rdzv {

namespace {

using namespace std::chrono_literals;
using Role = Leadership::Role;

constexpr auto kPause = 100ms;
constexpr auto kConfirmPause = 5ms;

}  // namespace

std::string place_of_listener(const Endpoint& listen, std::uint16_t bound_port) {
  Endpoint place(listen.host, bound_port);
  std::array<char, 256> name{};
  const bool is_any = listen.host == "0.0.0.0" || listen.host == "::";
  if (is_any && gethostname(name.data(), name.size() - 1) == 0) place.host = name.data();
  return to_string(place);
}

Result<std::unique_ptr<SharedService>> SharedService::start(Settings settings) {
  std::unique_ptr<SharedService> service(new SharedService(std::move(settings)));
  if (const ErrorCode failed = service->begin()) return failed;
  return service;
}

ErrorCode SharedService::begin() {
  changed_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!changed_) return last_system_error();
  LeadershipSettings leadership;
  leadership.prefix = settings_.etcd.prefix;
  leadership.place = settings_.place;
  EtcdLeader::Events events;
  events.changed = [this] { eventfd_write(changed_.get(), 1); };
  events.warn = settings_.on_warning;
  auto leader = EtcdLeader::start(
      [this](std::function<bool()> is_cancelled) { return make_client(std::move(is_cancelled)); },
      std::move(leadership), std::move(events));
  if (!leader) return leader.error();
  leader_ = std::move(*leader);
  auto server = start_standby();
  if (!server) return server.error();
  swap(std::move(*server));
  return {};
}

SharedService::~SharedService() {
  if (!leader_) return;
  leader_->begin_end();
  // No answer comes after another one may lead.
  std::shared_ptr<ServiceServer> server;
  {
    const std::lock_guard lock(mutex_);
    server = std::move(server_);
  }
  using Legacy = Leadership::Legacy;
  // An agent that is welcomed meanwhile would lose its job's keys.
  if (server) server->end();
  const bool is_run_over = settings_.may_begin_run && leads_ && server && !server->has_sessions();
  server.reset();
  leader_->end(is_run_over ? Legacy::removed : Legacy::kept);
}

std::unique_ptr<Etcd> SharedService::make_client(std::function<bool()> is_cancelled) const {
  return std::make_unique<EtcdClient>(settings_.etcd.members, std::move(is_cancelled),
                                      settings_.access);
}

void SharedService::adopt(UniqueFd connection) {
  const std::lock_guard lock(mutex_);
  if (server_) server_->adopt(std::move(connection));
}

std::size_t SharedService::agents() const {
  const std::lock_guard lock(mutex_);
  return server_ ? server_->agents() : 0;
}

bool SharedService::is_ending() const {
  const std::lock_guard lock(mutex_);
  return server_ && server_->is_ending();
}

// ---- roles ----

void SharedService::follow() {
  eventfd_t count = 0;
  eventfd_read(changed_.get(), &count);
  const EtcdLeader::View view = leader_->view();
  if (is_retired_) return;
  switch (view.role) {
    case Role::elected:
      return become_leader(view.revision);
    case Role::lost:
      return become_standby(view.reason);
    case Role::standby:
      if (!view.leader.empty())
        settings_.on_info(fmt::format("a standby: the rendezvous at {} leads", view.leader));
      return;
    case Role::leading:
      return;
  }
}

void SharedService::become_leader(EtcdRevision revision) {
  EtcdJournal::Settings settings;
  settings.prefix = settings_.etcd.prefix;
  settings.leader_revision = revision;
  settings.boot_time = boot_clock_now();
  settings.pause = [] { std::this_thread::sleep_for(kPause); };
  auto journal =
      EtcdJournal::open(make_client([leader = leader_.get()] { return leader->is_over(); }),
                        std::move(settings), leader_);
  if (!journal) return;  // it is lost, and that is the next change
  const bool is_new = journal->clock_revision() == 0;
  if (is_new && settings_.may_begin_run && !settings_.may_begin_run()) return retire();
  leader_->lead(journal->clock_shift(), journal->clock_revision());
  while (!leader_->may_answer() && !leader_->is_over()) std::this_thread::sleep_for(kConfirmPause);
  if (leader_->is_over()) return;
  ServiceServerSettings service = settings_.service;
  service.service.has_standbys = true;
  service.running_folder.clear();
  service.journal = std::move(journal);
  auto server = start_server(std::move(service));
  if (!server) return leader_->lose("it cannot serve: " + server.error().message());
  leads_ = true;
  swap(std::move(*server));
  settings_.on_info("leads, and serves the jobs of the journal");
}

void SharedService::retire() {
  is_retired_ = true;
  leader_->end();
  settings_.on_info("a standby for good: the run is over");
}

void SharedService::become_standby(const std::string& reason) {
  leads_ = false;
  settings_.on_warning(fmt::format("leads no more: {}; agents go to the next leader", reason));
  auto server = start_standby();
  if (server) {
    swap(std::move(*server));
  } else {
    settings_.on_warning("cannot answer as a standby: " + server.error().message());
    const std::lock_guard lock(mutex_);
    server_.reset();
  }
  leader_->stand_again();
}

Result<ServiceServer> SharedService::start_standby() {
  ServiceServerSettings service = settings_.service;
  service.running_folder.clear();
  service.standby = [this] { return answer_of_standby(); };
  return start_server(std::move(service));
}

/// While one takes the place of another, both may accept: what the old one has is reset, and comes
/// again.
Result<ServiceServer> SharedService::start_server(ServiceServerSettings service) const {
  StoreListener listener{{}, settings_.bound.host, *settings_.bound.port};
  if (settings_.listener) {
    listener.fd = UniqueFd(fcntl(settings_.listener.get(), F_DUPFD_CLOEXEC, 0));
    if (!listener.fd) return last_system_error();
  }
  return ServiceServer::start(std::move(listener), std::move(service));
}

/// The old one's end waits for its thread, which may wait for etcd: not with the lock.
void SharedService::swap(ServiceServer server) {
  auto next = std::make_shared<ServiceServer>(std::move(server));
  {
    const std::lock_guard lock(mutex_);
    std::swap(server_, next);
  }
}

proto::Refused SharedService::answer_of_standby() const {
  const EtcdLeader::View view = leader_->view();
  proto::Refused refused;
  refused.why = proto::Refused::Why::elsewhere;
  const bool is_other = !view.leader.empty() && view.role == Role::standby;
  if (is_other) refused.place = view.leader;
  refused.reason =
      is_other
          ? fmt::format("this rendezvous is a standby; the one at {} has the jobs", view.leader)
          : "this rendezvous is a standby, and none leads now; one does within seconds, if "
            "etcd answers";
  return refused;
}

}  // namespace ddprun::rdzv
