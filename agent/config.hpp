// What the agent is told once, before anything starts. Plain data; made from the launch plan.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <spdlog/common.h>

namespace ddprun::agent {

/// How a worker's output stream reaches us.
enum class StreamMode {
  inherit,  ///< the worker has our own descriptor
  pty,      ///< a pseudo-terminal; lines are prefixed
  pipe,     ///< a pipe; lines are prefixed
};

/// Which workers get our standard input; the others get /dev/null.
enum class StdinMode { rank0, all, none };

struct WorkerSettings {
  std::vector<std::string> argv;                    ///< `${local_rank}` replaced
  std::optional<std::string> cuda_visible_devices;  ///< none: the variable stays as it is
};

struct AgentConfig {
  std::string run_id;
  std::string role = "default";
  std::string node_name;

  std::string file;                     ///< what to execute
  std::vector<WorkerSettings> workers;  ///< one for each local rank
  int max_restarts = 0;
  std::chrono::milliseconds grace_period{30'000};

  std::string store_host;         ///< numeric address on which the round's store listens
  std::string master_addr;        ///< what workers are told
  std::uint16_t master_port = 0;  ///< 0: the kernel chooses

  StreamMode standard_output = StreamMode::inherit;
  StreamMode standard_error = StreamMode::inherit;
  StdinMode standard_input = StdinMode::rank0;

  bool set_omp_num_threads = false;    ///< OMP_NUM_THREADS=1
  bool set_python_unbuffered = false;  ///< PYTHONUNBUFFERED=1
  std::string run_directory;           ///< for error files; empty: none could be made
  spdlog::level::level_enum log_level = spdlog::level::warn;
};

}  // namespace ddprun::agent
