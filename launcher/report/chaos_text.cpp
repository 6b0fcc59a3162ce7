#include "launcher/report/chaos_text.hpp"

#include <fmt/format.h>

#include "base/describe.hpp"

namespace ddprun::launcher {
namespace {

/// The smallest of which so many hundredths are no longer (the nearest-rank method).
std::chrono::nanoseconds percentile(const std::vector<std::chrono::nanoseconds>& sorted,
                                    std::size_t hundredths) {
  const std::size_t rank = (sorted.size() * hundredths + 99) / 100;
  return sorted[rank == 0 ? 0 : rank - 1];
}

std::string counted(std::size_t count, const char* one, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

}  // namespace

RecoveryTimes recovery_times(const agent::ChaosSummary& chaos) {
  const auto& sorted = chaos.recoveries;
  return {percentile(sorted, 50), percentile(sorted, 90), sorted.back()};
}

std::string chaos_text(const agent::ChaosSummary& chaos) {
  std::string kinds;
  const auto add = [&](int count, agent::ChaosFault fault) {
    if (count > 0)
      kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, to_string(fault));
  };
  add(chaos.kills, agent::ChaosFault::kill);
  add(chaos.stops, agent::ChaosFault::stop);
  add(chaos.delays, agent::ChaosFault::delay);
  std::string text =
      fmt::format("ddprun: chaos (seed {}): {}{}", chaos.seed,
                  counted(static_cast<std::size_t>(chaos.kills + chaos.stops + chaos.delays),
                          "fault", "faults"),
                  kinds.empty() ? "" : " (" + kinds + ")");
  if (!chaos.recoveries.empty()) {
    const RecoveryTimes times = recovery_times(chaos);
    text += fmt::format("; {}: {} (median), {} (p90), {} (longest)",
                        counted(chaos.recoveries.size(), "recovery", "recoveries"),
                        describe(times.median), describe(times.p90), describe(times.longest));
  }
  return text + "\n";
}

}  // namespace ddprun::launcher
