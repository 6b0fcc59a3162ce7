// The service's process, its journal and its disk.
#include "tests/sim/sim_service.hpp"

#include <utility>

#include "proto/fit_frame.hpp"
#include "rendezvous/service/journal_format.hpp"
#include "tests/sim/sim_channel.hpp"

namespace ddprun::sim {

using rdzv::ConnectionId;

SimService::SimService(World& world, ServicePlan plan, std::function<void()> after)
    : world_(world), plan_(std::move(plan)), after_(std::move(after)) {
  begin();
}

// ---- its journal ----

std::vector<rdzv::JobRecord> SimService::restore() {
  rdzv::JournalContent journal = rdzv::read_journal(disk_);
  const bool damaged = journal.state == rdzv::JournalContent::State::damaged;
  if (damaged) journal.records.clear();
  disk_.resize(damaged ? 0 : journal.good_bytes);
  is_forgotten_ = false;
  core_.emplace(replayed(journal.records));
  durable_.emplace(replayed(journal.records));
  return std::move(journal.records);
}

rdzv::ServiceCore SimService::replayed(const std::vector<rdzv::JobRecord>& records) const {
  rdzv::ServiceSettings settings;
  settings.lease = plan_.lease;
  settings.has_secret = !plan_.secret.empty();
  settings.remembers = !disk_.empty() || has_clock_;
  if (!plan_.has_journal) settings.past_lease = lease_of_workers_;
  settings.snapshots = plan_.snapshots;
  rdzv::ServiceCore core(settings, world_.now());
  for (const rdzv::JobRecord& record : records) core.replay(record);
  return core;
}

void SimService::begin() {
  restore();
  if (before_crash_ && known(core_) != *std::exchange(before_crash_, std::nullopt))
    broken_ = "a journal brings back what was there";
  write(core_->begin(world_.now()));
  follow_deadline();
}

void SimService::flip_bit() {
  if (disk_.empty()) return;
  char& byte = disk_[world_.below(disk_.size())];
  byte = static_cast<char>(byte ^ (1 << world_.below(8)));
}

void SimService::write(const rdzv::ServiceActions& actions) {
  std::string& end = disk_full_ ? unwritten_ : disk_;
  if (disk_.empty() && unwritten_.empty() && !actions.records.empty())
    end = rdzv::journal_head(kRunId);
  if (!actions.records.empty()) is_forgotten_ = false;
  for (const rdzv::JobRecord& record : actions.records) {
    rdzv::append_journal_frame(end, record);
    durable_->replay(record);
  }
}

SimService::Known SimService::known(const std::optional<rdzv::ServiceCore>& core) {
  Known known;
  const rdzv::Job* job = core->job(kRunId);
  if (job == nullptr) return known;
  known.deadline = job->deadline();
  known.sessions = job->sessions().size();
  if (const rdzv::Membership* members = job->membership()) {
    known.next_round = members->next_round();
    known.restart_count = members->restart_count();
  }
  return known;
}

/// All agents know how the job ended: no record is needed, though the service still knows it.
void SimService::forget() {
  disk_.clear();
  unwritten_.clear();
  is_forgotten_ = has_clock_ = true;
  durable_.emplace(replayed({}));
}

/// What is told follows from what is written: a service that has only that would tell the same.
void SimService::check_cause(const rdzv::ServiceActions& actions) {
  if (is_forgotten_) return;
  if (known(core_) != known(durable_)) broken_ = "all that has happened is durable";
  std::map<ConnectionId, const proto::ServiceMessage*> last;
  for (const rdzv::ServiceSend& send : actions.sends) {
    const auto* message = std::get_if<proto::MembershipMessage>(&send.message);
    const bool is_state = message == nullptr || std::holds_alternative<proto::Round>(*message) ||
                          std::holds_alternative<proto::Stop>(*message) ||
                          std::holds_alternative<proto::Finished>(*message);
    if (is_state) last[send.to] = &send.message;
  }
  for (const auto& [to, message] : last) check_cause(wires_.at(to), *message);
}

void SimService::check_cause(const Wire& wire, const proto::ServiceMessage& message) {
  const rdzv::Job* job = durable_->job(kRunId);
  const rdzv::Job::Session* session = job != nullptr ? job->session(wire.session) : nullptr;
  const auto require = [this](bool holds, const char* what) {
    if (!holds) broken_ = what;
  };
  if (const auto* welcome = std::get_if<proto::Welcome>(&message)) {
    require(!welcome->resumed || (session != nullptr && job->epoch() == welcome->epoch &&
                                  session->acknowledged == welcome->acknowledged),
            "a session that goes on is durable");
  } else if (const auto* alive = std::get_if<proto::Alive>(&message)) {
    require(session != nullptr && session->acknowledged == alive->acknowledged,
            "what is acknowledged is durable");
  } else if (std::holds_alternative<proto::MembershipMessage>(message)) {
    // The last word to an agent of which the session is over is in no session.
    if (session == nullptr) return;
    const auto current = job->current(wire.session);
    require(current && proto::encode(proto::ServiceMessage(*current)) == proto::encode(message),
            "what an agent is told is durable");
  }
}

// ---- its process ----

void SimService::crash(Duration away, Disk disk) {
  if (!core_) return;
  if (!std::exchange(unwritten_, "").empty()) disk = Disk::lost;  // it is known to lack something
  world_.note(disk == Disk::kept ? "the service crashes" : "the service crashes and forgets");
  if (disk == Disk::kept && !is_forgotten_) before_crash_ = known(core_);
  if (disk != Disk::kept) has_clock_ = false;
  disk_later_ = disk;
  core_.reset();
  deadline_.reset();
  for (auto& [id, wire] : wires_)
    if (wire.channel) close(id, wire);
  world_.after(away, [this] { come_back(); });
}

void SimService::come_back() {
  if (core_) return;
  if (disk_later_ == Disk::lost) disk_.clear();
  if (disk_later_ == Disk::flipped) flip_bit();
  if (disk_later_ == Disk::old) {
    disk_ = old_disk_;
  } else if (world_.one_in(2)) {
    old_disk_ = disk_;
  }
  world_.note("the service is back");
  begin();
  after_();
}

void SimService::fill_disk(Duration lasts) {
  if (!core_ || std::exchange(disk_full_, true)) return;
  world_.note("the disk is full");
  world_.after(lasts, [this] { make_room(); });
}

void SimService::make_room() {
  if (!std::exchange(disk_full_, false)) return;
  world_.note("the disk has room again");
  disk_ += std::exchange(unwritten_, "");
}

void SimService::heal() {
  crash_while_telling_.reset();
  crash_while_writing_.reset();
  make_room();
  come_back();
}

const rdzv::Job* SimService::job() const { return core_ ? core_->job(kRunId) : nullptr; }

const rdzv::Membership* SimService::membership() const {
  const rdzv::Job* found = job();
  return found != nullptr ? found->membership() : nullptr;
}

void SimService::on(const rdzv::ServiceEvent& event) {
  if (!core_) return;
  auto actions = core_->on(event, world_.now());
  lease_of_workers_ = core_->lease_of_workers(world_.now());
  obey(actions);
  if (!core_) return;
  follow_deadline();
  after_();
}

void SimService::obey(rdzv::ServiceActions& actions) {
  const std::size_t durable = disk_.size();
  write(actions);
  check_cause(actions);
  if (crash_while_writing_ && !disk_full_ && !actions.records.empty()) {
    // What is whole on the disk has happened, though nobody was told.
    const auto known = rdzv::read_journal(disk_.substr(0, durable)).records.size();
    const bool is_replaced = !actions.snapshots.empty() && world_.one_in(2);
    if (!is_replaced) disk_.resize(durable + world_.below(disk_.size() - durable + 1));
    const std::vector<rdzv::JobRecord> whole = restore();
    records_.insert(records_.end(), whole.begin() + static_cast<std::ptrdiff_t>(known),
                    whole.end());
    if (is_replaced) disk_ = rdzv::journal_of(actions.snapshots.back());
    after_();
    crash(*std::exchange(crash_while_writing_, std::nullopt), Disk::kept);
    return;
  }
  if (!disk_full_) {
    for (const rdzv::JobSnapshot& snapshot : actions.snapshots) {
      disk_ = rdzv::journal_of(snapshot);
      durable_.emplace(replayed(rdzv::read_journal(disk_).records));
      if (known(core_) != known(durable_)) broken_ = "a snapshot brings back what was there";
    }
  }
  if (!actions.forget.empty()) forget();
  for (rdzv::JobRecord& record : actions.records) records_.push_back(std::move(record));
  for (const std::string& line : actions.log) world_.note(line);
  if (crash_while_telling_ && !actions.records.empty()) {
    after_();
    crash(*std::exchange(crash_while_telling_, std::nullopt), Disk::kept);
    return;
  }
  for (rdzv::ServiceSend& send : actions.sends) {
    Wire& wire = wires_.at(send.to);
    if (!wire.channel) continue;
    static_cast<void>(wire.channel->send(proto::encode_to_fit(send.message)));
    send_output(send.to, wire);
  }
  for (const ConnectionId id : actions.closes) {
    Wire& wire = wires_.at(id);
    if (wire.channel) close(id, wire);
  }
}

void SimService::follow_deadline() {
  if (deadline_ == core_->deadline()) return;
  deadline_ = core_->deadline();
  if (!deadline_) return;
  world_.at(*deadline_, [this, when = *deadline_] {
    if (deadline_ != when) return;
    deadline_.reset();
    on(rdzv::DeadlinePassed{});
  });
}

}  // namespace ddprun::sim
