// What the agent is told once, before anything starts. Plain data; part of the launch plan.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <spdlog/common.h>

#include "agent/streams/log_settings.hpp"
#include "machine/cpus/cpu_set.hpp"
#include "machine/processes/containment_level.hpp"
#include "rendezvous/membership/restart_policy.hpp"

namespace ddprun::agent {

/// Where a worker's output stream goes.
enum class StreamMode {
  inherit,  ///< the worker has our own descriptor
  pty,      ///< a pseudo-terminal; lines are prefixed
  pipe,     ///< a pipe; lines are prefixed
  file,     ///< its log file, which the worker writes itself
  null,     ///< /dev/null
};

struct StreamSettings {
  StreamMode mode = StreamMode::inherit;
  bool to_console = true;  ///< pty and pipe: lines are shown
  bool to_file = false;    ///< pipe: its bytes also go to its log file
};

struct WorkerSettings {
  std::vector<std::string> argv;                    ///< `${local_rank}` replaced
  std::optional<std::string> cuda_visible_devices;  ///< none: the variable stays as it is
  std::optional<int> omp_threads;                   ///< OMP_NUM_THREADS; none: stays as it is
  StreamSettings standard_output;
  StreamSettings standard_error;
  machine::CpuSet cpus;  ///< where it may run; empty: where we may
};

struct AgentConfig {
  std::string run_id;
  std::string role = "default";
  std::string node_name;

  std::string file;                     ///< what to execute
  std::vector<WorkerSettings> workers;  ///< one for each local rank
  rdzv::RestartSettings restart;
  std::chrono::milliseconds grace_period{30'000};
  std::chrono::milliseconds kill_timeout{10'000};  ///< for SIGKILL to take effect
  machine::ContainmentLevel containment =
      machine::ContainmentLevel::tree;  ///< which the warden has arranged

  std::string store_host;         ///< numeric address on which the round's store listens
  std::string master_addr;        ///< what workers are told
  std::uint16_t master_port = 0;  ///< 0: the kernel chooses

  bool agent_store = true;           ///< false: the worker of rank 0 serves the store itself
  bool store_any_uid = false;        ///< every user of this machine may use the store
  std::vector<unsigned> store_uids;  ///< users that may, beside us and root

  StdinMode standard_input = StdinMode::rank0;
  std::string prefix_template = "[rank${rank}] ";  ///< before a line; see LinePrefix
  bool colour_stdout = false;                      ///< the prefixes there
  bool colour_stderr = false;
  RankSet shown_ranks;                      ///< global; the others' lines are not shown here
  std::string log_folder;                   ///< of this run; empty: no log files
  std::vector<std::string> stdout_filters;  ///< lines for filtered_stdout.log
  std::vector<std::string> stderr_filters;
  LogPolicy log_policy = LogPolicy::drop;
  std::chrono::milliseconds bar_interval{10'000};  ///< see OutputSettings
  RotationSettings rotation;                       ///< of files that we write

  std::vector<int> forward_signals;    ///< that only workers get
  std::vector<int> stop_signals;       ///< that end the job
  bool virtual_local_rank = false;     ///< LOCAL_RANK is 0 everywhere
  bool set_python_unbuffered = false;  ///< PYTHONUNBUFFERED=1
  bool file_timers = false;            ///< torch's timers are watched
  std::string timer_file;              ///< for them; empty: one in the run directory
  bool keep_error_files = false;       ///< the launcher copies the culprit's to a file of its own
  std::string run_directory;  ///< for error files and progress pages; empty: none could be made
  std::chrono::milliseconds progress_timeout{0};  ///< silence that counts as a hang; 0: none does
  std::chrono::milliseconds log_timeout{0};  ///< without output that is worth a line; 0: none is
  bool restart_on_silence = false;  ///< when no worker prints for the log time-out, the round fails
  spdlog::level::level_enum log_level = spdlog::level::warn;
};

}  // namespace ddprun::agent
