// The grammar of --rdzv-conf=KEY=VALUE,... Pure.
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

}  // namespace ddprun::launcher
