// What DataParallel takes: the time of each phase of a step, and the memory of each replica. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::trainer {

/// The parts of a step, in their order.
enum class DataParallelPhase {
  broadcast,  ///< parameters from replica 0 to the others
  read,       ///< samples from the data set
  scatter,    ///< samples to the replicas
  forward,
  gather,    ///< outputs to replica 0
  loss,      ///< and its gradient by the outputs, on replica 0
  backward,  ///< with the gradient of the outputs going back to the replicas
  reduce,    ///< gradients to replica 0, and their sum there
  update,    ///< on replica 0
};
inline constexpr std::array<const char*, 9> kDataParallelPhases{
    "broadcast", "read", "scatter", "forward", "gather", "loss", "backward", "reduce", "update"};

struct DataParallelFigures {
  std::int64_t steps = 0;  ///< of this process: a run that was resumed has had more
  std::array<double, kDataParallelPhases.size()> seconds{};  ///< of all these steps, by phase
  std::vector<std::uint64_t> peak_bytes;                     ///< of each replica's memory

  [[nodiscard]] double& operator[](DataParallelPhase phase) {
    return seconds[static_cast<std::size_t>(phase)];
  }
  /// How much more replica 0 holds at its peak than the mean of the others; 0 of one replica.
  [[nodiscard]] double excess_bytes() const;
};

/// Two tables, several lines, for the final report.
std::string data_parallel_text(const DataParallelFigures& figures);

}  // namespace ddprun::trainer
