// Which faults --chaos brings into a job.
#pragma once

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
};

inline std::string_view to_string(ChaosFault fault) {
  constexpr std::string_view kNames[] = {"kill", "stop", "delay"};
  return kNames[static_cast<int>(fault)];
}

struct ChaosRow {
  ChaosFault fault = ChaosFault::kill;
  std::chrono::nanoseconds every{0};   ///< on average; more than 0
  std::chrono::nanoseconds length{0};  ///< delay: until SIGCONT
};

struct ChaosPlan {
  std::uint64_t seed = 0;
  std::vector<ChaosRow> rows;          ///< at least one
  std::optional<int> faults_max = {};  ///< none: until the job ends
};

}  // namespace ddprun::agent
