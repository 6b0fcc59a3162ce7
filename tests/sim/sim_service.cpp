// The service's process, its journal and its disk.
#include "tests/sim/sim_service.hpp"

#include <utility>

#include "rendezvous/service/journal_format.hpp"
#include "tests/sim/sim_channel.hpp"

namespace ddprun::sim {

SimService::SimService(World& world, ServicePlan plan, std::function<void()> after)
    : SimProcess(world, std::move(plan), "service:29400", 0), after_(std::move(after)) {
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

/// All agents know how the job ended: no record is needed, though the service still knows it.
void SimService::forget() {
  disk_.clear();
  unwritten_.clear();
  is_forgotten_ = has_clock_ = true;
  durable_.emplace(replayed({}));
}

// ---- its process ----

void SimService::crash(Duration away, Disk disk) {
  if (!core_) return;
  if (!std::exchange(unwritten_, "").empty()) disk = Disk::lost;  // it is known to lack something
  world_.note(disk == Disk::kept ? "the service crashes" : "the service crashes and forgets");
  if (disk == Disk::kept && !is_forgotten_) before_crash_ = known(core_);
  if (disk != Disk::kept) has_clock_ = false;
  disk_later_ = disk;
  stop_core();
  close_all();
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
  if (!is_forgotten_) check_cause(actions);
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
  tell(actions);
}

}  // namespace ddprun::sim
