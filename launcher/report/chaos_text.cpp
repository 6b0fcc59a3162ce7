#include "launcher/report/chaos_text.hpp"

#include <fmt/format.h>

#include "base/describe.hpp"
#include "launcher/report/counted.hpp"

namespace ddprun::launcher {
namespace {

/// By the nearest-rank method: the first that at least `hundredths` of all do not exceed.
std::chrono::nanoseconds percentile(const std::vector<std::chrono::nanoseconds>& sorted,
                                    std::size_t hundredths) {
  return sorted[(sorted.size() * hundredths + 99) / 100 - 1];
}

}  // namespace

RecoveryTimes recovery_times(const agent::ChaosSummary& chaos) {
  const auto& sorted = chaos.recoveries;
  return {percentile(sorted, 50), percentile(sorted, 90), sorted.back()};
}

std::string chaos_text(const agent::ChaosSummary& chaos) {
  std::string kinds;
  int all = 0;
  for (const auto& [fault, count] : chaos.faults) {
    all += count;
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, to_string(fault));
  }
  std::string text = fmt::format("ddprun: chaos (seed {}): {}{}", chaos.seed, counted(all, "fault"),
                                 kinds.empty() ? "" : " (" + kinds + ")");
  if (!chaos.recoveries.empty()) {
    const RecoveryTimes times = recovery_times(chaos);
    text +=
        fmt::format("; {}: {} (median), {} (p90), {} (longest)",
                    counted(static_cast<int>(chaos.recoveries.size()), "recovery", "recoveries"),
                    describe(times.median), describe(times.p90), describe(times.longest));
  }
  return text + "\n";
}

}  // namespace ddprun::launcher
