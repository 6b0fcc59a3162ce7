// The launch plan: everything that is decided before anything starts. Data goes one way: command
// line -> plan -> agent.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/environment.hpp"
#include "launcher/options/launch_error.hpp"
#include "launcher/options/options.hpp"
#include "launcher/plan/devices_plan.hpp"
#include "launcher/program/program.hpp"
#include "machine/cpus/cpu_set.hpp"
#include "machine/cpus/topology.hpp"
#include "machine/devices/devices.hpp"
#include "machine/processes/containment_level.hpp"

namespace ddprun::launcher {

/// Where one of a worker's output streams goes.
enum class StreamTransport {
  inherit,  ///< the worker has our own descriptor
  pty,      ///< a pseudo-terminal, lines prefixed
  pipe,     ///< a pipe, lines prefixed
  file,     ///< a log file, nothing of it is shown
  null,     ///< /dev/null
};

struct StreamPlan {
  StreamTransport transport = StreamTransport::inherit;
  bool to_console = true;  ///< pty and pipe: lines are shown
  bool to_file = false;    ///< pipe: what is written also goes to the log file
};

struct WorkerPlan {
  int local_rank = 0;
  std::optional<std::string> cuda_visible_devices;  ///< empty: leave the variable as it is
  std::optional<int> omp_threads;                   ///< empty: leave OMP_NUM_THREADS as it is
  machine::CpuSet cpus;                             ///< where it may run; empty: where we may
  StreamPlan standard_output;
  StreamPlan standard_error;
};

struct LogsPlan {
  bool wanted = false;          ///< a run has a folder of its own for files
  std::string base;             ///< where that folder is made; empty: in TMPDIR, else /tmp
  std::string prefix_template;  ///< see agent/streams/line_prefix.hpp
  bool colour_stdout = false;   ///< its prefixes
  bool colour_stderr = false;
};

struct LaunchPlan {
  LaunchOptions options;
  ProgramChoice program;            ///< argv before substitute_local_rank
  std::vector<WorkerPlan> workers;  ///< one for each local rank, in order; never empty
  DevicesPlan devices;
  StdinMode standard_input = StdinMode::rank0;  ///< who gets our stdin; the others get /dev/null
  LogsPlan logs;

  std::string run_id;
  std::string role;
  std::string master_addr;        ///< MASTER_ADDR, what workers are told
  std::string store_host;         ///< numeric address on which the round's store listens
  std::uint16_t master_port = 0;  ///< 0: the kernel chooses
  int max_restarts = 0;
  std::chrono::milliseconds grace_period{30'000};
  bool file_timers = false;  ///< torch's timers are watched, TORCHELASTIC_ENABLE_FILE_TIMER=1
  std::string timer_file;    ///< TORCHELASTIC_TIMER_FILE of our own; empty: not given
  std::string error_file;    ///< TORCHELASTIC_ERROR_FILE of our own; empty: no copy is wanted

  bool set_python_unbuffered = false;  ///< PYTHONUNBUFFERED=1: their output is not a terminal's
  machine::ContainmentLevel containment = machine::ContainmentLevel::tree;

  /// Lines to print once on stderr before anything starts, in this order.
  std::vector<std::string> notes;
};

/// What make_plan asks of the machine; each function is called only where the answer matters.
struct Probes {
  const FileProbe* files = nullptr;
  std::function<bool()> gpus_likely;
  std::function<machine::GpuDiscovery()> discover_gpus;
  std::function<int()> logical_cpus;
  std::function<int()> usable_cpus;  ///< by affinity and cgroup quota, at least 1
  /// Where the CPUs and these GPUs (PCI addresses) are.
  std::function<machine::MachineTopology(const std::vector<std::string>& pci_addresses)> topology;
  std::function<std::string()> new_run_id;  ///< a random UUID4
  std::function<bool()> cgroup_possible;    ///< we may make a cgroup below ours
  std::function<bool()> cgroup_delegated;   ///< and ours was given to us for that
  /// A host name's numeric address; empty when it did not resolve within the limit.
  std::function<std::optional<std::string>(const std::string&, std::chrono::milliseconds)>
      resolve_host;
  std::string executable_folder;  ///< of ddprun itself
  bool stdout_is_terminal = false;
  bool stderr_is_terminal = false;
};

/// The real ones; what they point to lives as long as the process.
Probes machine_probes();

/// Decides everything, or says why nothing can be started. Only for Request::run and the dry runs.
Outcome<LaunchPlan> make_plan(const LaunchOptions& options, const Environment& environment,
                              const Probes& probes);

}  // namespace ddprun::launcher
