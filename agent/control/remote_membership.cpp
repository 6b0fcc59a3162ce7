#include "agent/control/remote_membership.hpp"

#include <utility>

#include <boost/asio/post.hpp>

#include "base/boot_clock.hpp"

namespace ddprun::agent {

namespace asio = boost::asio;

RemoteMembership::RemoteMembership(asio::io_context& context, rdzv::SessionSettings session,
                                   rdzv::ServicePlace place, Events events)
    : context_(context),
      events_(std::move(events)),
      session_(std::move(session), boot_clock_now()),
      connection_(
          context, std::move(place),
          {[this] { on(rdzv::Connected{}); },
           [this](bool refused, const std::string& reason) {
             on(rdzv::ConnectionFailed{refused, reason});
           },
           [this](proto::ServiceMessage message) { on(rdzv::ServiceSaid{std::move(message)}); }}),
      timer_(context) {
  on(rdzv::SessionTimePassed{});
}

void RemoteMembership::send(proto::AgentMessage message) {
  on(rdzv::Submitted{std::move(message)});
}

/// An action may cause the next event at once: it waits until all actions of this one are done.
void RemoteMembership::on(rdzv::SessionEvent event) {
  pending_.push_back(std::move(event));
  if (pending_.size() > 1) return;
  for (; !pending_.empty(); pending_.pop_front()) {
    for (rdzv::SessionAction& action : session_.on(std::move(pending_.front()), boot_clock_now()))
      std::visit([this](auto& specific) { obey(specific); }, action);
  }
  follow_deadline();
}

/// The timer's clock stands still while the machine is suspended: then it comes late, and the
/// session sees by its own clock what is over.
void RemoteMembership::follow_deadline() {
  if (deadline_ == session_.deadline()) return;
  deadline_ = session_.deadline();
  timer_.cancel();
  if (!deadline_) return;
  timer_.expires_after(*deadline_ - boot_clock_now());
  timer_.async_wait([this](ErrorCode ec) {
    if (ec) return;
    deadline_.reset();
    on(rdzv::SessionTimePassed{});
  });
}

void RemoteMembership::obey(rdzv::Connect&) { connection_.connect(); }

void RemoteMembership::obey(rdzv::SendToService& action) { connection_.send(action.message); }

void RemoteMembership::obey(rdzv::ResetConnection&) { connection_.reset(); }

void RemoteMembership::obey(rdzv::Deliver& action) {
  asio::post(context_, [this, message = std::move(action.message)]() mutable {
    events_.said(std::move(message));
  });
}

void RemoteMembership::obey(rdzv::LeaseMoved& action) {
  if (events_.lease_moved) events_.lease_moved(action.until);
}

void RemoteMembership::obey(rdzv::Tell& action) { events_.tell(action.line); }

}  // namespace ddprun::agent
