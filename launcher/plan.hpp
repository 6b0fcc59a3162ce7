// The launch plan: everything that is decided before anything starts. Data goes one way: command
// line -> plan -> agent.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/devices.hpp"
#include "launcher/devices_plan.hpp"
#include "launcher/environment.hpp"
#include "launcher/launch_error.hpp"
#include "launcher/options.hpp"
#include "launcher/program.hpp"

namespace ddprun::launcher {

/// How one of a worker's output streams reaches us.
enum class StreamTransport {
  inherit,  ///< the worker has our own descriptor
  pty,      ///< a pseudo-terminal, lines prefixed
  pipe,     ///< a pipe, lines prefixed
};

struct StreamsPlan {
  StreamTransport standard_output = StreamTransport::inherit;
  StreamTransport standard_error = StreamTransport::inherit;
  StdinMode standard_input = StdinMode::rank0;  ///< who gets our stdin; the others get /dev/null
};

struct WorkerPlan {
  int local_rank = 0;
  std::optional<std::string> cuda_visible_devices;  ///< empty: leave the variable as it is
};

struct LaunchPlan {
  LaunchOptions options;
  ProgramChoice program;            ///< argv before substitute_local_rank
  std::vector<WorkerPlan> workers;  ///< one for each local rank, in order; never empty
  DevicesPlan devices;
  StreamsPlan streams;

  std::string run_id;
  std::string role;
  std::string master_addr;        ///< MASTER_ADDR, what workers are told
  std::string store_host;         ///< numeric address on which the round's store listens
  std::uint16_t master_port = 0;  ///< 0: the kernel chooses
  int max_restarts = 0;
  std::chrono::milliseconds grace_period{30'000};

  bool set_omp_num_threads =
      false;  ///< OMP_NUM_THREADS=1 for the workers: several of them, and the variable is absent
  bool set_python_unbuffered = false;  ///< PYTHONUNBUFFERED=1: their output is not a terminal's
  std::string containment = "tree";

  /// Lines to print once on stderr before anything starts, in this order.
  std::vector<std::string> notes;
};

/// What make_plan asks of the machine; each function is called only where the answer matters.
struct Probes {
  const FileProbe* files = nullptr;
  std::function<bool()> gpus_likely;
  std::function<agent::GpuDiscovery()> discover_gpus;
  std::function<int()> logical_cpus;
  std::function<std::string()> new_run_id;  ///< a random UUID4
  /// A host name's numeric address; empty when it does not resolve.
  std::function<std::optional<std::string>(const std::string&)> resolve_host;
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
