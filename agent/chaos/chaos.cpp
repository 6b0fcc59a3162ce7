#include "agent/chaos/chaos.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::size_t kRecoveriesMax = 100'000;  // a job may run for months

/// Half to one and a half of the average. Not std::uniform_real_distribution, which gives other
/// numbers with other libraries.
std::chrono::nanoseconds gap(std::mt19937_64& random, std::chrono::nanoseconds average) {
  constexpr double kTwoTo53 = 9007199254740992.0;
  const double share = static_cast<double>(random() >> 11U) / kTwoTo53;
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(static_cast<double>(average.count()) * (0.5 + share)));
}

}  // namespace

Chaos::Chaos(ChaosPlan plan) : plan_(std::move(plan)), ranks_(plan_.seed) {
  summary_.seed = plan_.seed;
  for (std::size_t i = 0; i < plan_.rows.size(); ++i) {
    std::seed_seq seeds{static_cast<std::uint32_t>(plan_.seed),
                        static_cast<std::uint32_t>(plan_.seed >> 32U),
                        static_cast<std::uint32_t>(i + 1)};
    Row row{plan_.rows[i], std::mt19937_64(seeds), {}};
    row.next = gap(row.random, row.row.every);
    rows_.push_back(std::move(row));
  }
}

void Chaos::round_runs(std::uint64_t round, TimePoint now) {
  if (round_ == round) {
    if (blow_ && !blow_->outlived_at) return;  // its end is on its way
  } else {
    if (blow_ && summary_.recoveries.size() < kRecoveriesMax)
      summary_.recoveries.push_back(now - blow_->at);
    blow_.reset();
  }
  round_ = round;
  if (!since_) since_ = std::max(now, partition_ends_at_);
}

void Chaos::round_ends(TimePoint now) {
  if (!since_) return;
  round_ended_at_ = now;
  ran_ += std::max<std::chrono::nanoseconds>(now - *since_, std::chrono::nanoseconds(0));
  since_.reset();
  if (blow_ && blow_->outlived_at && now > *blow_->outlived_at) blow_.reset();
}

bool Chaos::over() const { return plan_.faults_max && strikes_ >= *plan_.faults_max; }

/// The row that is due next; of several that are due at one time, the first.
std::size_t Chaos::next_row() const {
  const auto sooner = [](const Row& a, const Row& b) { return a.next < b.next; };
  return static_cast<std::size_t>(std::min_element(rows_.begin(), rows_.end(), sooner) -
                                  rows_.begin());
}

std::optional<Chaos::TimePoint> Chaos::deadline() const {
  if (!since_ || over()) return std::nullopt;
  return *since_ + std::max(rows_[next_row()].next - ran_, std::chrono::nanoseconds(0));
}

std::optional<ChaosStrike> Chaos::strike(int world_size, TimePoint now) {
  const auto due = deadline();
  if (!due || now < *due || world_size < 1) return std::nullopt;
  const ChaosStrike strike = take_next(world_size);
  since_ = now;
  if (strike.fault == ChaosFault::partition) {
    blow_ = Blow{now, now + 2 * strike.length};
    since_ = partition_ends_at_ = now + strike.length;
  } else if (strike.fault != ChaosFault::delay) {
    blow_ = Blow{now, std::nullopt};
    since_.reset();
  }
  return strike;
}

ChaosStrike Chaos::take_next(int world_size) {
  Row& row = rows_[next_row()];
  ran_ = row.next;  // not when we came to look: the order of faults depends on it
  row.next += gap(row.random, row.row.every);
  const int rank = static_cast<int>(ranks_() % static_cast<std::uint64_t>(world_size));
  ++summary_.faults[row.row.fault];
  return {++strikes_, row.row.fault, rank, row.row.length};
}

void Chaos::service_restarted(int world_size) {
  if (blow_ || over() || rows_[next_row()].row.fault != ChaosFault::service) return;
  take_next(world_size);
  blow_ = Blow{round_ended_at_, std::nullopt};
}

void Chaos::missed(TimePoint now) {
  if (blow_) since_ = now;
  blow_.reset();
}

ChaosSummary Chaos::summary() const {
  ChaosSummary summary = summary_;
  std::sort(summary.recoveries.begin(), summary.recoveries.end());
  return summary;
}

}  // namespace ddprun::agent
