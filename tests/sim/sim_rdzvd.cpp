#include "tests/sim/sim_rdzvd.hpp"

#include <utility>

#include <fmt/format.h>

#include "rendezvous/service/clock_id.hpp"
#include "tests/sim/sim_channel.hpp"

namespace ddprun::sim {

using namespace std::chrono_literals;
using rdzv::ConnectionId;
using Role = rdzv::Leadership::Role;

namespace {

constexpr rdzv::ConnectionId kConnectionsMost = 1'000'000'000;
/// As in rendezvous/shared/shared_service.cpp.
constexpr Duration kPause = 100ms;
constexpr Duration kConfirmPause = 5ms;

}  // namespace

SimRdzvd::SimRdzvd(World& world, ServicePlan plan, int number, std::int64_t clock_ppm_most,
                   Shared& shared)
    : SimProcess(world, std::move(plan), fmt::format("rdzvd{}:29400", number),
                 static_cast<ConnectionId>(number) * kConnectionsMost),
      clock_ppm_most_(clock_ppm_most),
      shared_(shared) {
  start();
}

// ---- its process ----

/// The machine may have been started again, and its clock with it.
void SimRdzvd::start() {
  if (!clock_ || world_.one_in(4)) {
    const Duration ahead = clock_ ? world_.up_to(10s) - world_.now().time_since_epoch()
                                  : world_.up_to(std::chrono::hours(1000));
    const auto ppm = static_cast<std::int64_t>(
        world_.below(static_cast<std::uint64_t>(2 * clock_ppm_most_ + 1)));
    clock_.emplace(world_, ahead, ppm - clock_ppm_most_);
  }
  leadership_ = std::make_shared<SimLeadership>(
      world_, shared_.etcd, *clock_, place(), [this] { return is_cut_; },
      [this] { follow_later(); });
  leadership_->go_on();
}

void SimRdzvd::kill(Duration away) {
  if (!is_up()) return;
  world_.note(place() + " is killed");
  leadership_->kill();
  leadership_.reset();
  if (leads()) shared_.leader = nullptr;
  serves_ = is_over_ = false;
  waiting_.clear();
  on_write_.reset();
  close_all();
  if (!is_in_call_) stop_core();
  world_.after(away, [this] { come_back(); });
}

/// Not before the call has returned in which it was killed.
void SimRdzvd::come_back() {
  if (is_up()) return;
  if (is_in_call_) return world_.after(kPause, [this] { come_back(); });
  world_.note(place() + " is started again");
  stop_core();
  journal_.reset();
  start();
}

void SimRdzvd::freeze(Duration lasts) {
  if (!is_up() || is_stopped()) return;
  world_.note(place() + " is stopped");
  leadership_->freeze();
  world_.after(lasts, [this, life = std::weak_ptr(leadership_)] {
    if (!life.expired() && life.lock() == leadership_) thaw();
  });
}

void SimRdzvd::thaw() {
  if (!is_stopped()) return;
  world_.note(place() + " goes on");
  leadership_->thaw();
  follow_later();
  take_waiting();
}

void SimRdzvd::cut_from_etcd(Duration lasts) {
  if (std::exchange(is_cut_, true)) return;
  world_.note(place() + " is cut off from etcd");
  world_.after(lasts, [this] { is_cut_ = false; });
}

void SimRdzvd::heal() {
  on_write_.reset();
  is_cut_ = false;
  thaw();
  come_back();
}

// ---- its role ----

void SimRdzvd::follow_later() {
  if (std::exchange(is_following_, true)) return;
  world_.after(0ns, [this] {
    is_following_ = false;
    follow();
  });
}

/// What follows when a call returns is looked at then.
void SimRdzvd::follow() {
  if (!is_up() || is_stopped() || is_in_call_) return;
  if (leadership_->role() == Role::elected) become_leader();
  if (is_up() && leadership_->role() == Role::lost) become_standby();
}

void SimRdzvd::become_leader() {
  const auto life = leadership_;
  is_in_call_ = true;
  rdzv::EtcdJournal::Settings settings;
  settings.prefix = SimEtcd::kPrefix;
  settings.leader_revision = life->revision();
  settings.boot_time = clock_->now();
  settings.pause = [life] { life->sleep(kPause); };
  const auto journal = rdzv::EtcdJournal::open(life->make_client(), std::move(settings), life);
  if (journal && !life->is_over()) {
    life->lead(journal->clock_shift(), journal->clock_revision());
    while (!life->may_answer() && !life->is_over()) life->sleep(kConfirmPause);
    if (!life->is_over()) {
      journal_ = journal;
      serve(*journal);
    }
  }
  is_in_call_ = false;
  if (is_up()) follow_later();
  take_waiting();
}

rdzv::ServiceCore SimRdzvd::replayed(const rdzv::JournalPast& past) const {
  rdzv::ServiceSettings settings;
  settings.lease = plan_.lease;
  settings.has_secret = !plan_.secret.empty();
  settings.has_standbys = true;
  settings.clock = rdzv::clock_id(place(), past.clock_shift);
  settings.remembers = past.is_complete;
  settings.snapshots = plan_.snapshots;
  rdzv::ServiceCore core(settings, now());
  for (const rdzv::JobRecord& record : past.records) core.replay(record);
  return core;
}

void SimRdzvd::serve(rdzv::EtcdJournal& journal) {
  const rdzv::JournalPast past = journal.take_past();
  clock_shift_ = past.clock_shift;
  if (!past.warnings.empty()) shared_.broken = past.warnings.front();
  const std::vector<rdzv::JobRecord> untold = shared_.told.read(past.records, now());
  shared_.untold += untold.empty() ? 0 : 1;
  shared_.records.insert(shared_.records.end(), untold.begin(), untold.end());
  ++shared_.leaders;
  shared_.leader = this;
  world_.note(place() + " leads");
  close_all();
  waiting_.clear();
  is_over_ = false;
  serves_ = true;
  core_.emplace(replayed(past));
  durable_.emplace(replayed(past));
  is_forgotten_ = false;
  const rdzv::ServiceActions actions = core_->begin(now());
  if (!actions.records.empty() || !actions.forget.empty()) commit(actions);
  if (!is_up()) return stop_core();
  replay_durable(actions);
  follow_deadline();
  shared_.after();
}

void SimRdzvd::become_standby() {
  world_.note(place() + " is a standby");
  if (leads()) shared_.leader = nullptr;
  serves_ = is_over_ = false;
  close_all();
  waiting_.clear();
  stop_core();
  journal_.reset();
  leadership_->stand_again();
}

void SimRdzvd::send_elsewhere(ConnectionId id) {
  proto::Refused refused;
  refused.why = proto::Refused::Why::elsewhere;
  if (leadership_->role() == Role::standby) refused.place = leadership_->leader();
  refused.reason = "this rdzvd is a standby";
  rdzv::ServiceActions actions;
  actions.sends.push_back({id, std::move(refused)});
  actions.closes.push_back(id);
  tell(actions);
}

// ---- its service, as rendezvous/service/service_server.cpp has it ----

std::optional<Duration> SimRdzvd::busy_for() {
  if (is_stopped()) return world_.up_to(kHealingNoticed);
  if (serves_ && is_in_call_) return 1ms + world_.up_to(4ms);
  return std::nullopt;
}

void SimRdzvd::on(const rdzv::ServiceEvent& event) {
  if (!is_up() || is_over_) return;
  if (!serves_) {
    const auto* opened = std::get_if<rdzv::ConnectionOpened>(&event);
    if (opened != nullptr) send_elsewhere(opened->connection);
    return;
  }
  if (is_in_call_ || is_stopped()) return waiting_.push_back(event);
  is_in_call_ = true;
  rdzv::ServiceActions actions = core_->on(event, now());
  const bool is_told = obey(actions);
  is_in_call_ = false;
  if (!is_up()) return stop_core();
  follow_later();
  if (!is_told) return;
  follow_deadline();
  shared_.after();
  take_waiting();
}

void SimRdzvd::take_waiting() {
  if (waiting_.empty()) return;
  world_.after(0ns, [this] {
    if (waiting_.empty() || is_in_call_ || is_stopped()) return;
    const rdzv::ServiceEvent event = std::move(waiting_.front());
    waiting_.pop_front();
    on(event);
    take_waiting();
  });
}

/// It may be killed or stopped meanwhile, or lose its leadership.
void SimRdzvd::commit(const rdzv::ServiceActions& actions) {
  if (leads()) shared_.told.write(actions);
  for (const rdzv::JobRecord& record : actions.records) journal_->append(record);
  for (const rdzv::JobSnapshot& snapshot : actions.snapshots) journal_->replace(snapshot);
  for (const std::string& run_id : actions.forget) journal_->forget(run_id);
  if (const auto fault = std::exchange(on_write_, std::nullopt)) {
    world_.after(world_.up_to(6ms), [this, life = leadership_, what = *fault] {
      if (life != leadership_) return;
      what.first == Fault::kill ? kill(what.second) : freeze(what.second);
    });
  }
  const auto journal = journal_;
  for (const std::string& line : journal->commit()) world_.note(line);
}

/// False: nobody is told anything any more.
bool SimRdzvd::obey(rdzv::ServiceActions& actions) {
  const auto life = leadership_;
  if (!actions.records.empty() || !actions.forget.empty()) commit(actions);
  if (life->is_dead()) return false;
  if (!journal_->may_answer()) {
    end_all();
    return false;
  }
  if (!leads()) shared_.broken = "one that was followed by another leader answers nobody";
  if (shared_.etcd.leader_revision() != life->revision())
    shared_.broken = "a leader answers only while the key is its own";
  shared_.told.tell(now());
  replay_durable(actions);
  if (!is_forgotten_) check_cause(actions);
  if (!broken_.empty()) shared_.broken = broken_;
  for (rdzv::JobRecord& record : actions.records) shared_.records.push_back(std::move(record));
  for (const std::string& line : actions.log) world_.note(line);
  tell(actions);
  return true;
}

void SimRdzvd::replay_durable(const rdzv::ServiceActions& actions) {
  if (!actions.records.empty()) is_forgotten_ = false;
  for (const rdzv::JobRecord& record : actions.records) durable_->replay(record);
  if (!actions.snapshots.empty())
    durable_.emplace(replayed({actions.snapshots.back().records, true, {}, {}}));
  if (actions.forget.empty()) return;
  is_forgotten_ = true;
  durable_.emplace(replayed({{}, true, {}, {}}));
}

/// As ServiceServer, once its journal does not let it answer.
void SimRdzvd::end_all() {
  world_.note(place() + " answers no more");
  if (leads()) shared_.leader = nullptr;
  is_over_ = true;
  close_all();
  waiting_.clear();
}

}  // namespace ddprun::sim
