#include "agent/progress/suspect_watch.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "agent/progress/progress_page.hpp"
#include "agent/progress/thread_states.hpp"
#include "agent/workers/worker_environment.hpp"

namespace ddprun::agent {
namespace {

constexpr std::size_t kRanksNamed = 8;

std::string named(const std::vector<int>& local_ranks, int first_rank) {
  std::string text = local_ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(local_ranks.size(), kRanksNamed); ++i)
    text += fmt::format("{}{}", i > 0 ? ", " : "", first_rank + local_ranks[i]);
  if (local_ranks.size() > kRanksNamed)
    text += fmt::format(" and {} more", local_ranks.size() - kRanksNamed);
  return text;
}

}  // namespace

SuspectWatch::SuspectWatch(boost::asio::io_context& context, const AgentConfig& config,
                           const machine::UserState& user, Handlers handlers)
    : config_(config), handlers_(std::move(handlers)), timer_(context), taker_(context, user) {}

void SuspectWatch::timed_out(const proto::Round& round, const WorkerGroup& group, int local_rank) {
  stop();
  timed_out_ = local_rank;
  round_ = &round;
  group_ = &group;
  timer_.expires_after(kSettle);
  timer_.async_wait([this, number = number_](ErrorCode ec) {
    if (!ec && number == number_) look();
  });
}

void SuspectWatch::stop() {
  ++number_;
  timer_.cancel();
  taker_.stop();
  suspects_.clear();
}

std::vector<int> SuspectWatch::running() const {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < group_->workers().size(); ++i) {
    if (group_->workers()[i].running()) ranks.push_back(static_cast<int>(i));
  }
  return ranks;
}

/// The one furthest behind comes first, where workers report progress.
void SuspectWatch::look() {
  suspects_ = running();
  std::map<int, std::uint64_t> steps;
  for (const int rank : suspects_) {
    const auto page =
        read_progress_page(
            progress_file(config_, group_->workers()[static_cast<std::size_t>(rank)].start, rank))
            .page;
    steps[rank] = page ? page->step : std::numeric_limits<std::uint64_t>::max();
  }
  std::stable_sort(suspects_.begin(), suspects_.end(),
                   [&](int a, int b) { return steps[a] < steps[b]; });
  const bool one = suspects_.size() == 1;
  handlers_.notice(fmt::format(
      "rank {} timed out waiting for its peers while {} still run{}; reading the stacks of {} (at "
      "most {} s)",
      round_->first_rank + timed_out_, named(suspects_, round_->first_rank), one ? "s" : "",
      named(suspects_, round_->first_rank), kStacksLimit.count()));
  deadline_ = Clock::now() + kStacksLimit;
  look_at_next();
}

void SuspectWatch::look_at_next() {
  while (!suspects_.empty()) {
    const int rank = suspects_.front();
    suspects_.erase(suspects_.begin());
    if (!group_->workers()[static_cast<std::size_t>(rank)].running()) continue;
    const auto left = deadline_ - Clock::now();
    if (stacks_.size() < kLookedAtMax && left > Clock::duration::zero()) {
      taker_.take(
          pid_of(rank),
          [this, rank](std::vector<std::string> lines) {
            stacks_[rank] = std::move(lines);
            look_at_next();
          },
          left);
      return;
    }
    stacks_[rank] = thread_states(pid_of(rank));
    stacks_[rank].insert(stacks_[rank].begin(), "from /proc:");
  }
  handlers_.ready();
}

}  // namespace ddprun::agent
