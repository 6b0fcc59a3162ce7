#include "launcher/options/rdzv_conf.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/describe.hpp"
#include "base/lower_case.hpp"
#include "base/trimmed.hpp"
#include "launcher/options/option_value.hpp"
#include "texts/suggest.hpp"

namespace ddprun::launcher {

namespace {

enum class KeyType { seconds, count, boolean, text };

struct KnownKey {
  std::string_view name;
  KeyType type;
  bool of_etcd = false;  // about another service than ours
};

// Every key that one of torchrun's backends reads, and those of ddprun alone: lost_timeout,
// munge_socket, etcd_user, etcd_password_file.
constexpr std::array kKnownKeys = {
    KnownKey{"timeout", KeyType::seconds},
    KnownKey{"join_timeout", KeyType::seconds},
    KnownKey{"last_call_timeout", KeyType::seconds},
    KnownKey{"close_timeout", KeyType::seconds},
    KnownKey{"heartbeat_timeout", KeyType::seconds},
    KnownKey{"keep_alive_interval", KeyType::seconds},
    KnownKey{"keep_alive_max_attempt", KeyType::count},
    KnownKey{"read_timeout", KeyType::seconds},
    KnownKey{"lost_timeout", KeyType::seconds},
    KnownKey{"is_host", KeyType::boolean},
    KnownKey{"munge_socket", KeyType::text},
    KnownKey{"store_type", KeyType::text},
    KnownKey{"protocol", KeyType::text, true},
    KnownKey{"ssl_cert", KeyType::text, true},
    KnownKey{"ssl_cert_key", KeyType::text, true},
    KnownKey{"ca_cert", KeyType::text, true},
    KnownKey{"cert", KeyType::text, true},
    KnownKey{"key", KeyType::text, true},
    KnownKey{"cacert", KeyType::text, true},
    KnownKey{"etcd_prefix", KeyType::text, true},
    KnownKey{"etcd_user", KeyType::text, true},
    KnownKey{"etcd_password_file", KeyType::text, true},
    KnownKey{"rank", KeyType::count},
};

std::optional<bool> parse_boolean(std::string_view text) {
  const std::string word = lower_case(text);
  const auto is_one_of = [&word](const auto& words) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  constexpr std::array<std::string_view, 5> kTrue = {"1", "true", "t", "yes", "y"};
  constexpr std::array<std::string_view, 5> kFalse = {"0", "false", "f", "no", "n"};
  if (is_one_of(kTrue)) return true;
  if (is_one_of(kFalse)) return false;
  return std::nullopt;
}

/// What the value should have been; empty: it is that.
std::string_view wanted(KeyType type, std::string_view value) {
  switch (type) {
    case KeyType::seconds: {
      const auto seconds = parse_seconds(value);
      return seconds && seconds->count() > 0 ? "" : "a positive number of seconds";
    }
    case KeyType::count: {
      const auto count = parse_integer(value);
      return count && *count >= 0 ? "" : "a number, 0 or more";
    }
    case KeyType::boolean:
      return parse_boolean(value) ? "" : "true or false";
    case KeyType::text:
      break;
  }
  return "";
}

std::string unknown_key_warning(const std::string& key) {
  std::vector<std::string> names;
  for (const KnownKey& known : kKnownKeys) names.emplace_back(known.name);
  std::string dashless = key;
  std::replace(dashless.begin(), dashless.end(), '-', '_');
  const auto meant = nearest(dashless, names);
  return "--rdzv-conf: unknown key " + key +
         (meant ? "; did you mean " + *meant + "?" : "; it is ignored");
}

LaunchResult<RdzvConf::Setting> setting(std::string_view text) {
  const auto equals = text.find('=');
  const auto key = trimmed(text.substr(0, equals));
  const auto value =
      equals == std::string_view::npos ? std::string_view() : trimmed(text.substr(equals + 1));
  if (key.empty() || value.empty()) {
    return usage_error("--rdzv-conf: expected KEY=VALUE,KEY=VALUE but found '" + std::string(text) +
                       "', as in --rdzv-conf=join_timeout=60,read_timeout=30");
  }
  return RdzvConf::Setting{std::string(key), std::string(value)};
}

}  // namespace

std::optional<std::string> RdzvConf::value(std::string_view key) const {
  for (const Setting& setting : settings) {
    if (setting.key == key) return setting.value;
  }
  return std::nullopt;
}

std::optional<std::chrono::milliseconds> RdzvConf::seconds(std::string_view key) const {
  const auto text = value(key);
  return text ? parse_seconds(*text) : std::nullopt;
}

std::optional<bool> RdzvConf::boolean(std::string_view key) const {
  const auto text = value(key);
  return text ? parse_boolean(*text) : std::nullopt;
}

std::string keys_without_effect(const RdzvConf& conf, bool over_etcd) {
  std::string keys;
  for (const RdzvConf::Setting& setting : conf.settings) {
    const auto known = std::find_if(kKnownKeys.begin(), kKnownKeys.end(),
                                    [&](const KnownKey& row) { return row.name == setting.key; });
    const bool file_store = setting.key == "store_type" && setting.value != "tcp";
    if (file_store || (known != kKnownKeys.end() && known->of_etcd && !over_etcd))
      keys += (keys.empty() ? "" : ", ") + setting.key;
  }
  return keys;
}

LaunchResult<RdzvConf> parse_rdzv_conf(std::string_view text) {
  RdzvConf conf;
  text = trimmed(text);
  if (text.empty()) return conf;
  while (true) {
    const auto comma = text.find(',');
    auto parsed = setting(text.substr(0, comma));
    if (!parsed) return parsed.error();
    const auto same =
        std::find_if(conf.settings.begin(), conf.settings.end(),
                     [&](const RdzvConf::Setting& old) { return old.key == parsed->key; });
    const bool repeated = same != conf.settings.end();
    const auto known = std::find_if(kKnownKeys.begin(), kKnownKeys.end(),
                                    [&](const KnownKey& row) { return row.name == parsed->key; });
    if (known == kKnownKeys.end()) {
      if (!repeated) conf.warnings.push_back(unknown_key_warning(parsed->key));
    } else if (const auto want = wanted(known->type, parsed->value); !want.empty()) {
      return usage_error("--rdzv-conf: " + parsed->key + " is " + std::string(want) + ", not '" +
                         parsed->value + "'");
    }
    if (repeated) {
      same->value = parsed->value;
    } else {
      conf.settings.push_back(std::move(*parsed));
    }
    if (comma == std::string_view::npos) return conf;
    text.remove_prefix(comma + 1);
  }
}

namespace {

using std::chrono::nanoseconds;

constexpr std::chrono::seconds kKeepAliveInterval{5};
constexpr long long kKeepAliveAttempts = 3;
constexpr std::chrono::seconds kLeaseMin{1};
constexpr std::chrono::hours kLeaseMax{1};
constexpr std::chrono::seconds kLostTimeout{300};

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
