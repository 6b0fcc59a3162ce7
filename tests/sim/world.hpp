// Virtual time, and chance from one seed: the same seed gives the same history.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string_view>
#include <utility>

namespace ddprun::sim {

using Clock = std::chrono::steady_clock;
using Duration = Clock::duration;

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] Clock::time_point now() const { return now_; }

  /// What was asked for first comes first at one instant.
  void at(Clock::time_point when, std::function<void()> what) {
    events_.emplace(std::pair(std::max(when, now_), ++sequence_), std::move(what));
  }
  void after(Duration time, std::function<void()> what) { at(now_ + time, std::move(what)); }

  /// False: nothing is left to happen until then.
  bool step(Clock::time_point until) {
    if (events_.empty() || events_.begin()->first.first > until) return false;
    now_ = events_.begin()->first.first;
    const auto what = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    what();
    return true;
  }

  // Not the library's distributions: theirs differ from one library to another.
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  Duration up_to(Duration longest) {
    return Duration(below(static_cast<std::uint64_t>(longest.count()) + 1));
  }

  /// Adds to the hash of all that happened (FNV-1a).
  void note(std::string_view text) {
    if (traced_ && !text.empty())
      std::fprintf(stderr, "%12.6f %.*s\n", std::chrono::duration<double>(now_ - kStart).count(),
                   static_cast<int>(text.size()), text.data());
    for (const char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 1099511628211U;
    hash_ = (hash_ ^ static_cast<std::uint64_t>(now_.time_since_epoch().count())) * 1099511628211U;
  }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  std::mt19937_64 random_;
  static constexpr Clock::time_point kStart{std::chrono::hours(1)};
  Clock::time_point now_ = kStart;
  const bool traced_ = std::getenv("DDPRUN_SIM_TRACE") != nullptr;  // to stderr
  std::uint64_t sequence_ = 0;
  std::uint64_t hash_ = 14695981039346656037U;
  std::map<std::pair<Clock::time_point, std::uint64_t>, std::function<void()>> events_;
};

/// The clock of one host: it stands elsewhere than the world's, and runs at another speed.
class HostClock {
 public:
  /// `ppm`: by so many millionths it is faster; at most 10,000.
  HostClock(const World& world, Duration ahead, std::int64_t ppm)
      : world_(world), began_(world.now()), ahead_(ahead), ppm_(ppm) {}

  [[nodiscard]] Clock::time_point now() const {
    const std::int64_t passed = (world_.now() - began_).count();
    return began_ + ahead_ + Duration(passed + part(passed, kMillion, ppm_));
  }
  /// When this clock will have reached `local`, in the world's time.
  [[nodiscard]] Clock::time_point in_world(Clock::time_point local) const {
    constexpr std::int64_t kRoundedUp = 2;
    const std::int64_t passed = (local - ahead_ - began_).count();
    return began_ + Duration(passed - part(passed, kMillion + ppm_, ppm_) + kRoundedUp);
  }

 private:
  static constexpr std::int64_t kMillion = 1'000'000;
  /// value / whole * share, without an overflow.
  static std::int64_t part(std::int64_t value, std::int64_t whole, std::int64_t share) {
    return value / whole * share + value % whole * share / whole;
  }

  const World& world_;
  const Clock::time_point began_;
  const Duration ahead_;
  const std::int64_t ppm_;
};

}  // namespace ddprun::sim
