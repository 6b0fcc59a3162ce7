#include "tests/sim/sim_link.hpp"

#include <algorithm>
#include <utility>

#include "proto/error.hpp"
#include "proto/fit_frame.hpp"
#include "tests/sim/sim_channel.hpp"
#include "tests/sim/sim_process.hpp"

namespace ddprun::sim {

using namespace std::chrono_literals;
using rdzv::ConnectionId;

namespace {

/// What one of several places takes until its channel is open; a busy one has more at every other
/// attempt (rendezvous/client/service_connection.cpp).
constexpr Duration kPlaceTime = 1s;
constexpr Duration kLongPlaceTime = 3s;

rdzv::ServiceHosts hosts_of(const std::vector<SimProcess*>& places) {
  std::vector<Endpoint> hosts;
  for (const SimProcess* place : places) hosts.push_back(*parse_endpoint(place->place()));
  const Endpoint first = hosts.front();
  hosts.erase(hosts.begin());
  return {first, std::move(hosts)};
}

bool tells_outcome(const rdzv::SessionEvent& event) {
  const auto* said = std::get_if<rdzv::ServiceSaid>(&event);
  const auto* message = said ? std::get_if<proto::MembershipMessage>(&said->message) : nullptr;
  return message != nullptr && std::holds_alternative<proto::Finished>(*message);
}

}  // namespace

SimLink::SimLink(World& world, HostClock clock, std::vector<SimProcess*> places, LinkPlan plan,
                 rdzv::SessionSettings settings,
                 std::function<void(proto::MembershipMessage)> deliver,
                 std::function<void()> lease_over)
    : world_(world),
      clock_(clock),
      places_(std::move(places)),
      hosts_(hosts_of(places_)),
      place_(places_.front()),
      plan_(std::move(plan)),
      deliver_(std::move(deliver)),
      lease_over_(std::move(lease_over)),
      session_(std::move(settings), clock.now()),
      heard_at_(clock.now()) {
  follow_deadline();
}

Duration SimLink::draw_delay() const {
  const bool hiccups = plan_.hiccup_most > 0ns && !is_calm_ && world_.one_in(50);
  return world_.up_to(plan_.delay_most + delay_ + (hiccups ? plan_.hiccup_most : Duration(0)));
}

bool SimLink::is_cut(bool up) const {
  return cut_ == Cut::both || cut_ == (up ? Cut::up : Cut::down);
}

void SimLink::end(bool silently) {
  if (!alive_) return;
  alive_ = false;
  if (connection_ != 0 && !silently) place_->end(connection_, true);
}

void SimLink::on(rdzv::SessionEvent event) {
  if (!alive_) return;
  events_.push_back(std::move(event));
  go_on();
}

void SimLink::go_on() {
  if (frozen_ || suspended_ || std::exchange(busy_, true)) return;
  for (; !events_.empty(); events_.pop_front()) {
    const bool is_outcome = tells_outcome(events_.front());
    for (rdzv::SessionAction& action : session_.on(std::move(events_.front()), clock_.now()))
      std::visit([this](auto& specific) { obey(specific); }, action);
    was_told_ = was_told_ || (is_outcome && session_.is_over());
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
  ++attempts_;
  hosts_.begin();
  try_place();
}

void SimLink::obey(rdzv::SendToService& action) {
  if (!channel_) return;
  static_cast<void>(channel_->send(proto::encode_to_fit(action.message)));
  send_output();
}

void SimLink::obey(rdzv::ResetConnection&) { end_connection(); }

/// In the next turn, as the agent's loop has it.
void SimLink::obey(rdzv::Deliver& action) {
  world_.after(0ns, [this, message = std::move(action.message)] {
    if (alive_) deliver_(message);
  });
}

void SimLink::send_output() {
  if (channel_->output_bytes() > 0) place_->send(connection_, channel_->take_output());
}

// ---- one of several places, as rendezvous/client/service_connection.cpp has it ----

void SimLink::try_place() {
  channel_.reset();
  const auto found = std::find_if(places_.begin(), places_.end(), [this](const SimProcess* one) {
    return one->place() == to_string(hosts_.current());
  });
  place_ = *found;
  connection_ = place_->connect(*this);
  if (!hosts_.has_next()) return;
  const Duration time = attempts_ % 2 == 0 ? kLongPlaceTime : kPlaceTime;
  world_.at(clock_.in_world(clock_.now() + time), [this, id = connection_] {
    const bool is_open = channel_ && channel_->is_open();
    if (alive_ && id == connection_ && !is_open && !frozen_ && !suspended_) next_place("no answer");
  });
}

/// Within the same attempt.
void SimLink::next_place(const std::string& reason) {
  if (!hosts_.go_on()) return failed(false, reason);
  end_connection();
  try_place();
}

void SimLink::end_connection() {
  if (connection_ != 0) place_->end(std::exchange(connection_, 0), false);
  channel_.reset();
}

void SimLink::failed(bool refused, const std::string& reason) {
  connection_ = 0;
  channel_.reset();
  on(rdzv::ConnectionFailed{refused, reason});
}

void SimLink::connection_failed(ConnectionId id, bool refused) {
  if (!alive_ || id != connection_) return;
  const std::string reason = refused ? "Connection refused" : "Connection reset by peer";
  // Another of them may have the jobs and start workers: so none of these is "not there".
  if (hosts_.are_several() && !channel_) return next_place(reason);
  if (hosts_.has_next() && !channel_->is_open()) return next_place(reason);
  failed(refused && !hosts_.are_several(), reason);
}

void SimLink::connected(ConnectionId id) {
  if (!alive_ || id != connection_) return;
  if (frozen_ || suspended_) {
    world_.after(kHealingNoticed, [this, id] { connected(id); });
    return;
  }
  channel_.emplace(channel_of(world_, proto::Side::client, plan_.secret));
  send_output();
}

void SimLink::arrived(ConnectionId id, const std::string& bytes) {
  if (!alive_ || id != connection_ || !channel_) return;
  channel_->append(bytes);
  while (channel_ && id == connection_) {
    const bool was_open = channel_->is_open();
    const auto body = channel_->next();
    if (!body) {
      place_->end(id, false);
      fail_to_open(id, body.error());
      return;
    }
    send_output();
    const bool is_opened = !was_open && channel_->is_open();
    std::optional<proto::ServiceMessage> message;
    if (*body) {
      if (auto decoded = proto::decode_service_message(**body)) message = std::move(*decoded);
    }
    if (is_opened) on(rdzv::Connected{plan_.is_forwarded ? "" : std::to_string(id)});
    const auto* refused = message ? std::get_if<proto::Refused>(&*message) : nullptr;
    if (refused != nullptr && refused->why == proto::Refused::Why::elsewhere) {
      hosts_.prefer(refused->place);
      hosts_.go_on();
      place_->end(id, false);
      return failed(false, refused->reason);
    }
    if (message) {
      heard_at_ = clock_.now();
      on(rdzv::ServiceSaid{std::move(*message)});
    } else if (!*body) {
      break;
    }
  }
}

/// A secret that is missing or wrong is no matter for another attempt.
void SimLink::fail_to_open(ConnectionId id, const ErrorCode& error) {
  if (error == proto::Errc::secret_missing || error == proto::Errc::not_authentic)
    on(rdzv::ServiceSaid{proto::Refused{proto::Refused::Why::wrong_secret, error.message()}});
  connection_failed(id, false);
}

}  // namespace ddprun::sim
