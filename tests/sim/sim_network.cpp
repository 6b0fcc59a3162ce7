#include "tests/sim/sim_network.hpp"

#include <utility>

#include "proto/fit_frame.hpp"
#include "rendezvous/service/journal_format.hpp"

namespace ddprun::sim {

using namespace std::chrono_literals;
using rdzv::ConnectionId;

namespace {

constexpr Duration kDelayMost = 2ms;
constexpr Duration kHiccupMost = 1s;
constexpr Duration kHealingNoticed = 200ms;  // by the kernel, which sends again

proto::ControlChannel channel_of(World& world, proto::Side side) {
  proto::ControlChannel::Settings settings;
  settings.side = side;
  settings.hello.kind = "rendezvous";
  settings.hello.version_min = settings.hello.version_max = 1;
  if (side == proto::Side::client) settings.hello.run_id = kRunId;
  settings.hello.nonce.emplace();
  for (std::uint8_t& byte : *settings.hello.nonce)
    byte = static_cast<std::uint8_t>(world.below(256));
  return proto::ControlChannel(std::move(settings));
}

}  // namespace

// ---- an agent's end ----

SimLink::SimLink(World& world, HostClock clock, SimService& service, bool hiccups,
                 rdzv::SessionSettings settings,
                 std::function<void(proto::MembershipMessage)> deliver,
                 std::function<void()> lease_over)
    : world_(world),
      clock_(clock),
      service_(service),
      hiccups_(hiccups),
      deliver_(std::move(deliver)),
      lease_over_(std::move(lease_over)),
      session_(std::move(settings), clock.now()) {
  follow_deadline();
}

Duration SimLink::draw_delay() const {
  const Duration more = hiccups_ && world_.one_in(50) ? kHiccupMost : Duration(0);
  return world_.up_to(kDelayMost + delay_ + more);
}

bool SimLink::is_cut(bool up) const {
  return cut_ == Cut::both || cut_ == (up ? Cut::up : Cut::down);
}

void SimLink::end(bool silently) {
  if (!alive_) return;
  alive_ = false;
  if (connection_ != 0 && !silently) service_.end(connection_, true);
}

void SimLink::on(rdzv::SessionEvent event) {
  if (!alive_) return;
  events_.push_back(std::move(event));
  go_on();
}

void SimLink::go_on() {
  if (frozen_ || suspended_ || std::exchange(busy_, true)) return;
  for (; !events_.empty(); events_.pop_front()) {
    for (rdzv::SessionAction& action : session_.on(std::move(events_.front()), clock_.now()))
      std::visit([this](auto& specific) { obey(specific); }, action);
  }
  busy_ = false;
  follow_deadline();
}

void SimLink::thaw() {
  frozen_ = false;
  if (alive_) go_on();
}

void SimLink::resume() {
  suspended_ = false;
  if (std::exchange(warden_is_due_, false)) lease_over_();
  if (alive_) go_on();
}

void SimLink::follow_deadline() {
  if (!alive_ || deadline_ == session_.deadline()) return;
  deadline_ = session_.deadline();
  if (!deadline_) return;
  world_.at(clock_.in_world(*deadline_), [this, when = *deadline_] {
    if (!alive_ || deadline_ != when) return;
    deadline_.reset();
    on(rdzv::SessionTimePassed{});
  });
}

/// The agent is to act at once, and the warden a second later in its place.
void SimLink::obey(rdzv::LeaseMoved& action) {
  world_.at(clock_.in_world(action.until + 1s), [this, until = action.until] {
    if (!alive_ || session_.lease_end() != until) return;
    warden_is_due_ = suspended_;
    if (!suspended_) lease_over_();
  });
}

void SimLink::obey(rdzv::Connect&) {
  channel_.reset();
  connection_ = service_.connect(*this);
}

void SimLink::obey(rdzv::SendToService& action) {
  if (!channel_) return;
  static_cast<void>(channel_->send(proto::encode_to_fit(action.message)));
  send_output();
}

void SimLink::obey(rdzv::ResetConnection&) {
  if (connection_ != 0) service_.end(std::exchange(connection_, 0), false);
  channel_.reset();
}

/// In the next turn, as the agent's loop has it.
void SimLink::obey(rdzv::Deliver& action) {
  world_.after(0ns, [this, message = std::move(action.message)] {
    if (alive_) deliver_(message);
  });
}

void SimLink::send_output() {
  if (channel_->output_bytes() > 0) service_.send(connection_, channel_->take_output());
}

void SimLink::connection_failed(ConnectionId id, bool refused) {
  if (!alive_ || id != connection_) return;
  connection_ = 0;
  channel_.reset();
  on(rdzv::ConnectionFailed{refused, refused ? "Connection refused" : "Connection reset by peer"});
}

void SimLink::connected(ConnectionId id) {
  if (!alive_ || id != connection_) return;
  if (frozen_ || suspended_) {
    world_.after(kHealingNoticed, [this, id] { connected(id); });
    return;
  }
  channel_.emplace(channel_of(world_, proto::Side::client));
  send_output();
}

void SimLink::arrived(ConnectionId id, const std::string& bytes) {
  if (!alive_ || id != connection_ || !channel_) return;
  const bool was_open = channel_->is_open();
  channel_->append(bytes);
  while (channel_ && id == connection_) {
    const auto body = channel_->next();
    if (!body) {
      service_.end(id, false);
      connection_failed(id, false);
      return;
    }
    if (!*body) break;
    auto message = proto::decode_service_message(**body);
    if (message) on(rdzv::ServiceSaid{std::move(*message)});
  }
  if (channel_ && !was_open && channel_->is_open()) on(rdzv::Connected{std::to_string(id)});
}

// ---- the service's process ----

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

// ---- connections ----

ConnectionId SimService::connect(SimLink& link) {
  const ConnectionId id = ++connections_;
  world_.after(link.draw_delay(), [this, id, &link] {
    if (link.is_cut(true) || link.is_cut(false)) return;  // the attempt runs into its time-out
    if (!core_) {
      link.connection_failed(id, true);
      return;
    }
    Wire& wire = wires_[id];
    wire.link = &link;
    wire.channel.emplace(channel_of(world_, proto::Side::service));
    send_output(id, wire);
    link.connected(id);
  });
  return id;
}

void SimService::send(ConnectionId id, std::string bytes) { push(id, true, {std::move(bytes)}); }

void SimService::end(ConnectionId id, bool cleanly) { push(id, true, {"", true, cleanly}); }

void SimService::close(ConnectionId id, Wire& wire) {
  wire.channel.reset();
  push(id, false, {"", true, false});
}

void SimService::send_output(ConnectionId id, Wire& wire) {
  if (wire.channel->output_bytes() > 0) push(id, false, {wire.channel->take_output()});
}

void SimService::push(ConnectionId id, bool up, Item item) {
  const auto found = wires_.find(id);
  if (found == wires_.end()) return;
  Pipe& pipe = up ? found->second.up : found->second.down;
  pipe.items.push_back(std::move(item));
  if (std::exchange(pipe.moves, true)) return;
  world_.after(found->second.link->draw_delay(), [this, id, up] { move(id, up); });
}

void SimService::move(ConnectionId id, bool up) {
  Wire& wire = wires_.at(id);
  Pipe& pipe = up ? wire.up : wire.down;
  if (wire.link->is_cut(up)) {
    world_.after(kHealingNoticed, [this, id, up] { move(id, up); });
    return;
  }
  const Item item = std::move(pipe.items.front());
  pipe.items.pop_front();
  if (up) {
    arrived_up(id, wire, item);
  } else if (item.ends) {
    wire.link->connection_failed(id, false);
  } else {
    wire.link->arrived(id, item.bytes);
  }
  pipe.moves = !pipe.items.empty();
  if (pipe.moves) world_.after(world_.up_to(kDelayMost), [this, id, up] { move(id, up); });
}

void SimService::arrived_up(ConnectionId id, Wire& wire, const Item& item) {
  if (!wire.channel) return;
  if (item.ends) {
    wire.channel.reset();
    if (wire.told) on(rdzv::ConnectionEnded{id, item.cleanly});
    return;
  }
  wire.channel->append(item.bytes);
  while (wire.channel) {
    const auto body = wire.channel->next();
    if (!body) {
      close(id, wire);
      return;
    }
    if (wire.channel->is_open() && !std::exchange(wire.told, true))
      on(rdzv::ConnectionOpened{id, wire.channel->peer()->run_id, "10.0.0.1", std::to_string(id)});
    if (!*body) break;
    auto message = proto::decode_client_message(**body);
    if (message) on(rdzv::ClientSaid{id, std::move(*message)});
  }
}

}  // namespace ddprun::sim
