#include "agent/link/remote_membership.hpp"

#include <unistd.h>

#include <cstdint>
#include <utility>

#include <boost/asio/post.hpp>

#include "base/boot_clock.hpp"
#include "machine/processes/boot_timer.hpp"

namespace ddprun::agent {

namespace asio = boost::asio;

RemoteMembership::RemoteMembership(asio::io_context& context, rdzv::SessionSettings session,
                                   rdzv::ServicePlace place, Events events)
    : context_(context),
      events_(std::move(events)),
      session_(std::move(session), boot_clock_now()),
      connection_(
          context, std::move(place),
          {[this] {
             if (events_.connected) events_.connected();
             on(rdzv::Connected{connection_.path()});
           },
           [this](bool refused, const std::string& reason) { lose_connection(refused, reason); },
           [this](proto::ServiceMessage message) {
             const auto* welcome = std::get_if<proto::Welcome>(&message);
             if (welcome != nullptr && events_.welcomed) events_.welcomed(*welcome);
             on(rdzv::ServiceSaid{std::move(message)});
           }}),
      timer_(context) {}

ErrorCode RemoteMembership::start() {
  auto timer = machine::make_boot_timer();
  if (!timer) return timer.error();
  ErrorCode failed;
  timer_.assign(timer->get(), failed);
  if (failed) return failed;
  static_cast<void>(timer->release());
  await_timer();
  on(rdzv::SessionTimePassed{});
  return {};
}

void RemoteMembership::stop() {
  stopped_ = true;
  connection_.reset();
  ErrorCode ignored;
  timer_.cancel(ignored);
}

void RemoteMembership::lose_connection(bool refused, const std::string& reason) {
  if (events_.disconnected) events_.disconnected();
  on(rdzv::ConnectionFailed{refused, reason, connection_.why_elsewhere()});
}

void RemoteMembership::send(proto::AgentMessage message) {
  on(rdzv::Submitted{std::move(message)});
}

void RemoteMembership::send(proto::AgentMessage message,
                            std::chrono::steady_clock::time_point round_began) {
  const auto ago = std::chrono::steady_clock::now() - round_began;
  on(rdzv::Submitted{std::move(message), boot_clock_now() - ago});
}

/// An action may cause the next event at once: it waits until all actions of this one are done.
void RemoteMembership::on(rdzv::SessionEvent event) {
  if (stopped_) return;
  pending_.push_back(std::move(event));
  if (pending_.size() > 1) return;
  for (; !pending_.empty() && !stopped_; pending_.pop_front()) {
    for (rdzv::SessionAction& action : session_.on(std::move(pending_.front()), boot_clock_now()))
      std::visit([this](auto& specific) { obey(specific); }, action);
  }
  follow_deadline();
}

/// By a timer that runs on while the machine is suspended: a lease that is over then must end the
/// workers at once.
void RemoteMembership::follow_deadline() {
  if (deadline_ == session_.deadline()) return;
  deadline_ = session_.deadline();
  machine::set_boot_timer(timer_.native_handle(), deadline_);
}

void RemoteMembership::await_timer() {
  timer_.async_wait(asio::posix::descriptor_base::wait_read, [this](ErrorCode ec) {
    if (ec || stopped_) return;
    std::uint64_t times = 0;
    if (read(timer_.native_handle(), &times, sizeof times) == sizeof times) {
      deadline_.reset();
      on(rdzv::SessionTimePassed{});
    }
    await_timer();
  });
}

void RemoteMembership::obey(rdzv::Connect&) { connection_.connect(); }

void RemoteMembership::obey(rdzv::SendToService& action) { connection_.send(action.message); }

void RemoteMembership::obey(rdzv::ResetConnection&) {
  connection_.reset();
  if (events_.disconnected) events_.disconnected();
}

void RemoteMembership::obey(rdzv::Deliver& action) {
  asio::post(context_, [this, message = std::move(action.message)]() mutable {
    if (!stopped_) events_.message(std::move(message));
  });
}

void RemoteMembership::obey(rdzv::LeaseMoved& action) {
  if (events_.lease_moved) events_.lease_moved(action.until);
}

void RemoteMembership::obey(rdzv::Tell& action) { events_.notice(action.line); }

}  // namespace ddprun::agent
