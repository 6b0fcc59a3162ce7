#include "agent/link/membership_link.hpp"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

namespace ddprun::agent {

namespace asio = boost::asio;
using rdzv::Clock;

LocalMembership::LocalMembership(asio::io_context& context, proto::JobSettings settings,
                                 Handler handler)
    : context_(context),
      handler_(std::move(handler)),
      core_(std::move(settings), Clock::now()),
      timer_(context, [this] { handle(rdzv::DeadlinePassed{}); }) {}

void LocalMembership::send(proto::AgentMessage message) {
  handle(rdzv::FromAgent{own_id_, std::move(message)});
}

void LocalMembership::handle(const rdzv::MembershipEvent& event) {
  auto actions = core_.on(event, Clock::now());
  if (!actions.log.empty()) spdlog::info("{}", actions.log);
  for (const std::string& warning : actions.warnings) {
    const bool is_sent =
        std::any_of(actions.sends.begin(), actions.sends.end(),
                    [&](const rdzv::Send& send) { return rdzv::carries(send, warning); });
    if (!is_sent) spdlog::warn("{}", warning);
  }
  // In the next turn of the loop, as they would come from another node.
  for (rdzv::Send& send : actions.sends) {
    asio::post(context_, [this, message = std::move(send.message)]() mutable {
      handler_(std::move(message));
    });
  }
  timer_.follow(core_.deadline());
}

}  // namespace ddprun::agent
