// The grammar of --rdzv-conf=KEY=VALUE,..., and the times in it. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options/launch_error.hpp"

namespace ddprun::launcher {

/// What --rdzv-conf says; the last of equal keys counts.
struct RdzvConf {
  struct Setting {
    std::string key;
    std::string value;
    friend bool operator==(const Setting&, const Setting&) = default;
  };
  std::vector<Setting> settings;      ///< in the order given, each key once
  std::vector<std::string> warnings;  ///< to print once: unknown keys, with the nearest known one

  [[nodiscard]] std::optional<std::string> value(std::string_view key) const;
  /// The value of a known key, so it has the right form.
  [[nodiscard]] std::optional<std::chrono::milliseconds> seconds(std::string_view key) const;
  [[nodiscard]] std::optional<bool> boolean(std::string_view key) const;
};

/// `k1=v1,k2=v2` as torchrun reads it: split at commas and at the first `=`, blanks trimmed, an
/// empty text is empty settings. An empty key or value is an error; so is a known time-out that is
/// no positive number. Unknown keys are kept, with a warning: public command lines carry such keys.
LaunchResult<RdzvConf> parse_rdzv_conf(std::string_view text);

/// The keys given that mean nothing to a job of several nodes, with commas between them.
/// `over_etcd`: its nodes meet over etcd.
std::string keys_without_effect(const RdzvConf& conf, bool over_etcd);

/// 1 s <= lease <= lost_timeout, so a node whose rendezvous answers never counts as lost or gives
/// up: it asks several times in each lease.
struct RdzvTimes {
  std::optional<std::chrono::nanoseconds> join_timeout;  ///< none: the usual one
  std::optional<std::chrono::nanoseconds> last_call;     ///< none: the usual one
  std::chrono::nanoseconds lease{0};                     ///< how long a node may be silent
  std::chrono::nanoseconds lost_timeout{0};              ///< how long the rendezvous may
  std::vector<std::string> warnings;  ///< values that count otherwise than they were typed
};

/// What does not fit is derived where torchrun accepts it, and where both wishes can be met. An
/// error is a lease or a lost_timeout below a second. `lost_beyond_lease`: how much longer than the
/// lease a lost_timeout is that was not given; none: the usual one.
LaunchResult<RdzvTimes> rdzv_times(const RdzvConf& conf,
                                   std::optional<std::chrono::nanoseconds> lost_beyond_lease = {});

}  // namespace ddprun::launcher
