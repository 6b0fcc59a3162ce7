#include "launcher/options/rdzv_times.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "launcher/options/option_value.hpp"

namespace ddprun::launcher {
namespace {

using std::chrono::nanoseconds;

constexpr std::chrono::seconds kKeepAliveInterval{5};
constexpr long long kKeepAliveAttempts = 3;
constexpr std::chrono::seconds kLeaseMin{1};
constexpr std::chrono::hours kLeaseMax{1};
constexpr std::chrono::seconds kLostTimeout{300};

double in_seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

LaunchResult<void> take_lease(const RdzvConf& conf, RdzvTimes& times) {
  const nanoseconds interval = conf.seconds("keep_alive_interval").value_or(kKeepAliveInterval);
  const auto given = conf.value("keep_alive_max_attempt");
  const long long attempts = given ? parse_integer(*given).value_or(0) : kKeepAliveAttempts;
  // By division: the product may be too large for its type.
  const bool is_too_long = attempts > kLeaseMax / interval;
  if (!is_too_long && attempts * interval < kLeaseMin) {
    return usage_error(
        fmt::format("--rdzv-conf: keep_alive_interval x keep_alive_max_attempt is {} s x {}; "
                    "expected 1 s or more in all, as in "
                    "keep_alive_interval=5,keep_alive_max_attempt=3",
                    in_seconds(interval), attempts));
  }
  if (is_too_long) {
    times.warnings.push_back(
        fmt::format("--rdzv-conf: keep_alive_interval x keep_alive_max_attempt is {} s x {}; 1 h "
                    "is used, the longest time for which a node may be silent",
                    in_seconds(interval), attempts));
  }
  times.lease = is_too_long ? nanoseconds(kLeaseMax) : nanoseconds(attempts * interval);
  return {};
}

/// A node ends its workers lost_timeout after the last answer, so it never needs a longer lease.
LaunchResult<void> take_lost_timeout(const RdzvConf& conf, std::optional<nanoseconds> beyond_lease,
                                     RdzvTimes& times) {
  const auto given = conf.seconds("lost_timeout");
  if (!given) {
    times.lost_timeout = beyond_lease ? times.lease + *beyond_lease
                                      : std::max<nanoseconds>(kLostTimeout, times.lease);
    return {};
  }
  if (*given < kLeaseMin) {
    return usage_error(fmt::format(
        "--rdzv-conf: lost_timeout is {} s; expected 1 s or more, as in lost_timeout=60",
        in_seconds(*given)));
  }
  times.lost_timeout = *given;
  if (times.lease <= times.lost_timeout) return {};
  if (conf.value("keep_alive_interval") || conf.value("keep_alive_max_attempt")) {
    times.warnings.push_back(
        fmt::format("--rdzv-conf: lost_timeout is {} s, shorter than keep_alive_interval x "
                    "keep_alive_max_attempt ({} s), so a node may be silent for {} s only",
                    in_seconds(*given), in_seconds(times.lease), in_seconds(*given)));
  }
  times.lease = times.lost_timeout;
  return {};
}

}  // namespace

LaunchResult<RdzvTimes> rdzv_times(const RdzvConf& conf,
                                   std::optional<nanoseconds> lost_beyond_lease) {
  RdzvTimes times;
  times.join_timeout = conf.seconds(conf.value("join_timeout") ? "join_timeout" : "timeout");
  times.last_call = conf.seconds("last_call_timeout");
  if (const auto taken = take_lease(conf, times); !taken) return taken.error();
  if (const auto taken = take_lost_timeout(conf, lost_beyond_lease, times); !taken)
    return taken.error();
  return times;
}

}  // namespace ddprun::launcher
