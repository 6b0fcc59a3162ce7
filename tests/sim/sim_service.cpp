// The service's process, its journal and its disk.
#include "tests/sim/sim_service.hpp"

#include <utility>

#include "proto/fit_frame.hpp"
#include "rendezvous/service/journal_format.hpp"
#include "tests/sim/sim_channel.hpp"

namespace ddprun::sim {

using rdzv::ConnectionId;

SimService::SimService(World& world, bool has_journal, std::function<void()> after)
    : world_(world), after_(std::move(after)), leaves_file_(!has_journal) {
  begin();
}

std::vector<rdzv::JobRecord> SimService::restore() {
  rdzv::JournalContent journal = rdzv::read_journal(disk_);
  const bool damaged = journal.state == rdzv::JournalContent::State::damaged;
  if (damaged) journal.records.clear();
  disk_.resize(damaged ? 0 : journal.good_bytes);
  rdzv::ServiceSettings settings;
  settings.remembers = !disk_.empty();
  if (leaves_file_) settings.past_lease = lease_of_workers_;
  settings.snapshots = {0, 1};  // often
  core_.emplace(settings, world_.now());
  for (const rdzv::JobRecord& record : journal.records) core_->replay(record);
  return std::move(journal.records);
}

void SimService::begin() {
  restore();
  replay_differed_ |= before_crash_ && known() != *std::exchange(before_crash_, std::nullopt);
  core_->begin(world_.now());
  follow_deadline();
}

void SimService::crash(Duration away, Disk disk) {
  if (!core_) return;
  if (!std::exchange(unwritten_, "").empty()) disk = Disk::lost;  // it is known to lack something
  world_.note(disk == Disk::kept ? "the service crashes" : "the service crashes and forgets");
  if (disk == Disk::kept) before_crash_ = known();
  core_.reset();
  deadline_.reset();
  for (auto& [id, wire] : wires_)
    if (wire.channel) close(id, wire);
  world_.after(away, [this, disk] {
    if (disk == Disk::lost) disk_.clear();
    if (disk == Disk::flipped) flip_bit();
    world_.note("the service is back");
    begin();
    after_();
  });
}

void SimService::flip_bit() {
  if (disk_.empty()) return;
  char& byte = disk_[world_.below(disk_.size())];
  byte = static_cast<char>(byte ^ (1 << world_.below(8)));
}

void SimService::fill_disk(Duration lasts) {
  if (!core_ || std::exchange(disk_full_, true)) return;
  world_.note("the disk is full");
  world_.after(lasts, [this] {
    world_.note("the disk has room again");
    disk_full_ = false;
    disk_ += std::exchange(unwritten_, "");
  });
}

void SimService::write(const rdzv::ServiceActions& actions) {
  std::string& end = disk_full_ ? unwritten_ : disk_;
  if (disk_.empty() && unwritten_.empty() && !actions.records.empty())
    end = rdzv::journal_head(kRunId);
  for (const rdzv::JobRecord& record : actions.records) rdzv::append_journal_frame(end, record);
}

const rdzv::Job* SimService::job() const { return core_ ? core_->job(kRunId) : nullptr; }

SimService::Known SimService::known() const {
  Known known;
  if (job() != nullptr) known.deadline = job()->deadline();
  if (const rdzv::Membership* members = membership()) {
    known.next_round = members->next_round();
    known.restart_count = members->restart_count();
  }
  return known;
}

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
  if (!disk_full_)
    for (const rdzv::JobSnapshot& snapshot : actions.snapshots) disk_ = rdzv::journal_of(snapshot);
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
