// The environment contract with the launcher: torchrun's variables, read and checked once. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ddprun::trainer {

/// By it NVIDIA's libraries decide on tf32, whatever a program asks for.
inline constexpr const char* kTf32Override = "NVIDIA_TF32_OVERRIDE";

/// What the launcher told this worker. Without a launcher: one worker, alone.
struct WorkerEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  std::string master_addr;
  std::uint16_t master_port = 0;
  /// The agent hosts the store: everybody is a client. Otherwise rank 0 hosts it.
  bool agent_store = false;
  int max_world_size = 0;  ///< that the job may grow to; 0: it keeps world_size
  std::string
      job_socket;      ///< of ddprun's agent on this host; no other job here has it. Empty: none
  std::string run_id;  ///< empty: none was given ("none", torchrun's default, counts as none)
  std::int64_t restart_count = 0;
  bool may_restart = true;  ///< the launcher restarts workers that fail, or does not say
  std::int64_t round = 0;
  std::optional<std::int64_t> epoch;  ///< of the round; none: the launcher knows none
  std::optional<int> source_rank;     ///< DDPRUN_SOURCE_RANK; none: no worker was kept with a state
  std::optional<std::string> visible_gpus;  ///< CUDA_VISIBLE_DEVICES; none: not set
  bool forces_tf32 = false;                 ///< kTf32Override is 1
  bool forbids_tf32 = false;                ///< it is 0

  /// These workers follow others of the same run.
  [[nodiscard]] bool restarted() const { return restart_count > 0 || round > 0; }
};

/// Cores that this process may use.
int usable_cores();

/// Gives the value of a variable, or null.
using VariableLookup = std::function<const char*(const char*)>;

/// Throws DataError that names the variable, its value and what it must be.
WorkerEnvironment read_environment(const VariableLookup& lookup);

}  // namespace ddprun::trainer
