#include "rendezvous/membership/job_differences.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ddprun::rdzv {
namespace {

using std::chrono::nanoseconds;

std::string text(int value) { return std::to_string(value); }
std::string text(nanoseconds value) {
  return fmt::format("{}", std::chrono::duration<double>(value).count());
}
std::string text(const std::vector<int>& codes) { return fmt::format("{}", fmt::join(codes, ",")); }

/// As an option: what stands for "none" can't be typed.
template <class Value>
std::optional<Value> given_or_none(const Value& value) {
  return value == Value() ? std::nullopt : std::optional(value);
}

/// `option` with its value, or why there is none.
struct Setting {
  std::string words;

  template <class Value>
  Setting(std::string_view option, const Value& value)
      : words(fmt::format("{}{}", option, text(value))) {}
  template <class Value>
  Setting(std::string_view option, const std::optional<Value>& value, std::string_view none)
      : words(value ? fmt::format("{}{}", option, text(*value)) : std::string(none)) {}
};

}  // namespace

std::vector<std::string> differences(const proto::JobSettings& job,
                                     const proto::JobSettings& given) {
  const auto settings = [](const proto::JobSettings& of) {
    const proto::RestartSettings& restart = of.restart;
    return std::vector<Setting>{
        {"--max-restarts=", restart.max_restarts},
        {"--restart-window=", given_or_none(restart.window), "no --restart-window"},
        {"--restart-delay=", restart.back_off},
        {"--min-uptime=", restart.minimum_uptime},
        {"--no-restart-on=", given_or_none(restart.no_restart_codes), "no --no-restart-on"},
        {"--max-node-changes=", of.max_node_changes, "no --max-node-changes"},
        {"--rdzv-conf=last_call_timeout=", of.last_call},
        {"--rdzv-conf=join_timeout=", of.join_timeout},
        {"--grow-delay=", of.grow_delay, "--grow-delay=never"},
    };
  };
  std::vector<std::string> lines;
  const auto here = settings(given);
  for (std::size_t i = 0; const Setting& there : settings(job)) {
    const Setting& other = here[i++];
    if (there.words != other.words)
      lines.push_back(fmt::format("this job has {}, not {}", there.words, other.words));
  }
  return lines;
}

}  // namespace ddprun::rdzv
