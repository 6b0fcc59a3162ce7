#include "agent/control/local_membership.hpp"

#include <utility>

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "base/result.hpp"

namespace ddprun::agent {

namespace asio = boost::asio;
using rdzv::Clock;

LocalMembership::LocalMembership(asio::io_context& context, rdzv::MembershipSettings settings,
                                 Handler handler)
    : context_(context),
      handler_(std::move(handler)),
      core_(std::move(settings), Clock::now()),
      timer_(context) {}

void LocalMembership::send(proto::AgentMessage message) {
  tell(rdzv::FromAgent{own_id_, std::move(message)});
}

void LocalMembership::tell(const rdzv::MembershipEvent& event) {
  auto actions = core_.on(event, Clock::now());
  if (!actions.log.empty()) spdlog::info("{}", actions.log);
  // In the next turn of the loop, as they would come from another node.
  for (rdzv::Send& send : actions.sends) {
    asio::post(context_, [this, message = std::move(send.message)]() mutable {
      handler_(std::move(message));
    });
  }
  wait_for_deadline();
}

void LocalMembership::wait_for_deadline() {
  if (deadline_ == core_.deadline()) return;
  deadline_ = core_.deadline();
  timer_.cancel();
  if (!deadline_) return;
  timer_.expires_at(*deadline_);
  timer_.async_wait([this](ErrorCode ec) {
    if (ec) return;
    deadline_.reset();
    tell(rdzv::DeadlinePassed{});
  });
}

}  // namespace ddprun::agent
