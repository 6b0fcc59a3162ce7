#include "launcher/options/chaos_option.hpp"

#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/duration.hpp"
#include "base/number_in.hpp"

namespace ddprun::launcher {
namespace {

using agent::ChaosFault;
using agent::ChaosPlan;
using agent::ChaosRow;

constexpr std::string_view kForm =
    "expected SEED,FAULT=EVERY,..., as in --chaos=7,kill=30s,delay=10s/500ms,faults=20";

LaunchError wrong(std::string_view part, std::string_view why) {
  return usage_error(fmt::format("--chaos: {}: {}", part, why));
}

std::optional<ChaosFault> fault_of(std::string_view name) {
  for (const ChaosFault fault : agent::kChaosFaults)
    if (to_string(fault) == name) return fault;
  return std::nullopt;
}

/// None: no duration, or too short a one.
std::optional<std::chrono::nanoseconds> time_of(std::string_view text) {
  const auto time = parse_duration(text);
  return time && *time >= std::chrono::milliseconds(1) ? time : std::nullopt;
}

bool has_length_of_its_own(ChaosFault fault) {
  return fault == ChaosFault::delay || fault == ChaosFault::partition;
}

/// `30s`, of a delay or a partition `10s/500ms`.
LaunchResult<ChaosRow> row_of(ChaosFault fault, std::string_view part, std::string_view value) {
  ChaosRow row;
  row.fault = fault;
  const auto slash = value.find('/');
  const auto every = time_of(value.substr(0, slash));
  if (!every)
    return wrong(part, fmt::format("expected a time, 1 ms or longer, {}", kDurationExamples));
  row.every = *every;
  const bool has_length = slash != std::string_view::npos;
  if (has_length && !has_length_of_its_own(fault))
    return wrong(part, "only delay and partition have a second time");
  if (!has_length && has_length_of_its_own(fault)) {
    return wrong(part,
                 fmt::format("expected {0}=EVERY/LENGTH, as in {0}=10s/500ms", to_string(fault)));
  }
  if (!has_length) return row;
  const auto length = time_of(value.substr(slash + 1));
  if (!length) {
    return wrong(part, fmt::format("expected a time behind the slash, 1 ms or longer, {}",
                                   kDurationExamples));
  }
  row.length = *length;
  return row;
}

LaunchResult<void> take_part(std::string_view part, ChaosPlan& plan) {
  const auto equals = part.find('=');
  const std::string_view name = part.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
  if (name == "faults") {
    const auto count = number_in<int>(value);
    if (!count || *count < 1) return wrong(part, "expected a number from 1");
    plan.faults_max = *count;
    return {};
  }
  const auto fault = fault_of(name);
  if (!fault)
    return wrong(part,
                 "the faults are kill, stop, delay, service and partition; faults=N ends them");
  for (const ChaosRow& row : plan.rows)
    if (row.fault == *fault) return wrong(part, fmt::format("{} is given twice", name));
  const auto row = row_of(*fault, part, value);
  if (!row) return row.error();
  plan.rows.push_back(*row);
  return {};
}

}  // namespace

LaunchResult<ChaosPlan> parse_chaos(std::string_view text) {
  ChaosPlan plan;
  const auto comma = text.find(',');
  const auto seed = number_in<std::uint64_t>(text.substr(0, comma));
  if (!seed || comma == std::string_view::npos)
    return usage_error(fmt::format("--chaos: {}", kForm));
  plan.seed = *seed;
  text.remove_prefix(comma + 1);
  while (true) {
    const auto end = text.find(',');
    if (const auto taken = take_part(text.substr(0, end), plan); !taken) return taken.error();
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  if (plan.rows.empty()) return usage_error("--chaos: no fault is given; " + std::string(kForm));
  return plan;
}

}  // namespace ddprun::launcher
