// Which faults --chaos brings into a job.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ddprun::agent {

enum class ChaosFault {
  kill,   ///< SIGKILL
  stop,   ///< SIGSTOP: the worker hangs until its round ends
  delay,  ///< SIGSTOP, and SIGCONT a while later
  /// The rendezvous service ends without a word and begins again without its memory. Of a job
  /// where an agent has it.
  service,
  partition,  ///< a node is cut from the rendezvous service for a while
};

inline constexpr ChaosFault kChaosFaults[] = {ChaosFault::kill, ChaosFault::stop, ChaosFault::delay,
                                              ChaosFault::service, ChaosFault::partition};

inline std::string_view to_string(ChaosFault fault) {
  constexpr std::string_view kNames[] = {"kill", "stop", "delay", "service", "partition"};
  return kNames[static_cast<int>(fault)];
}

struct ChaosRow {
  ChaosFault fault = ChaosFault::kill;
  std::chrono::nanoseconds every{0};   ///< on average; more than 0
  std::chrono::nanoseconds length{0};  ///< delay: until SIGCONT; partition: until its end
};

struct ChaosPlan {
  std::uint64_t seed = 0;
  std::vector<ChaosRow> rows;          ///< at least one
  std::optional<int> faults_max = {};  ///< none: until the job ends

  [[nodiscard]] bool has(ChaosFault fault) const {
    return std::any_of(rows.begin(), rows.end(),
                       [fault](const ChaosRow& row) { return row.fault == fault; });
  }
};

}  // namespace ddprun::agent
