#include "launcher/plan.hpp"

#include <arpa/inet.h>

#include <utility>

#include "proto/environment_names.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::string_view kLoopback = "127.0.0.1";

bool is_numeric_address(const std::string& host) {
  in6_addr address;  // large enough for both families
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

struct WorkersAndDevices {
  int workers = 1;
  DevicesPlan devices;
};

/// Why so many workers can't have a GPU each; asked only where there are GPUs.
LaunchError too_many_workers(int workers, const DevicesPlan& devices) {
  const auto gpus = devices.chosen.size();
  std::string list;
  for (const auto& entry : devices.chosen) list += (list.empty() ? "" : ",") + entry;
  return usage_error("--nproc-per-node=" + std::to_string(workers) + ": more workers than GPUs (" +
                     std::to_string(gpus) + " visible: " + list +
                     "); use --nproc-per-node=gpu, or --gpus=none for a CPU job");
}

Outcome<WorkersAndDevices> workers_and_devices(
    const LaunchOptions& options, const std::optional<std::string>& cuda_visible_devices,
    const Probes& probes) {
  using Kind = ProcessCount::Kind;
  const ProcessCount& processes = options.processes;
  const bool cpu_job = options.gpus.kind == GpuSelection::Kind::none;
  if (cpu_job && processes.kind == Kind::gpu) {
    return usage_error(
        "--nproc-per-node=gpu and --gpus=none exclude each other; give a number or cpu");
  }
  const bool asked_for =
      processes.kind == Kind::automatic || processes.kind == Kind::gpu || options.gpus.given;
  agent::GpuDiscovery discovered;
  if (!cpu_job && (asked_for || probes.gpus_likely())) discovered = probes.discover_gpus();

  WorkersAndDevices result;
  auto devices = plan_devices(discovered, cuda_visible_devices, options.gpus);
  if (!devices) return devices.error();
  result.devices = std::move(*devices);

  const auto gpus = static_cast<int>(result.devices.chosen.size());
  if (processes.kind == Kind::gpu && gpus == 0) {
    return usage_error("--nproc-per-node=gpu: " + no_gpu(discovered, cuda_visible_devices) +
                       "; give a number, cpu or auto");
  }
  if (processes.kind == Kind::gpu || (processes.kind == Kind::automatic && gpus > 0)) {
    result.workers = gpus;
  } else if (processes.kind != Kind::number) {
    result.workers = probes.logical_cpus();
  } else if (!processes.given && options.gpus.kind == GpuSelection::Kind::list) {
    result.workers = gpus;  // a list of GPUs asks for a worker on each
  } else {
    result.workers = processes.number;
  }
  const bool wants_gpus =
      processes.kind != Kind::cpu || options.gpu_visibility == GpuVisibility::own;
  if (gpus > 0 && result.workers > gpus && wants_gpus)
    return too_many_workers(result.workers, result.devices);
  return result;
}

StreamsPlan plan_streams(const LaunchOptions& options, int workers, const Probes& probes) {
  StreamsPlan streams;
  streams.standard_input = options.standard_input;
  const auto mode = options.output.value_or(workers == 1 ? OutputMode::raw : OutputMode::prefix);
  const auto transport = [mode](bool terminal) {
    switch (mode) {
      case OutputMode::raw:
        return StreamTransport::inherit;
      case OutputMode::pty:
        return StreamTransport::pty;
      case OutputMode::pipe:
        return StreamTransport::pipe;
      case OutputMode::prefix:
        break;
    }
    return terminal ? StreamTransport::pty : StreamTransport::pipe;
  };
  streams.standard_output = transport(probes.stdout_is_terminal);
  streams.standard_error = transport(probes.stderr_is_terminal);
  return streams;
}

Outcome<bool> plan_meeting_point(const LaunchOptions& options, const Probes& probes,
                                 LaunchPlan& plan) {
  plan.run_id = options.run_id.value_or("");
  plan.master_port = options.master_port.value_or(0);
  plan.master_addr = options.master_addr;
  if (options.standalone) {
    // torchrun's rule; people use the flag so that two jobs on one machine never meet.
    std::vector<std::string> ignored;
    if (options.run_id) ignored.push_back("--rdzv-id");
    if (!options.master_addr.empty()) ignored.push_back("--master-addr");
    if (options.master_port) ignored.push_back("--master-port");
    for (const auto& name : ignored)
      plan.notes.push_back(name + " is ignored because of --standalone");
    plan.run_id.clear();
    plan.master_port = 0;
    plan.master_addr.clear();
  }
  if (plan.run_id.empty()) plan.run_id = probes.new_run_id();

  std::string& host = plan.master_addr;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  if (host.empty()) host = kLoopback;
  if (is_numeric_address(host)) {
    plan.store_host = host;
  } else if (host == "localhost") {
    plan.store_host = kLoopback;
  } else {
    const auto address = probes.resolve_host(host);
    if (!address) {
      return usage_error("--master-addr=" + host +
                         " does not resolve to an address; on one machine leave it out");
    }
    plan.store_host = *address;
  }
  return true;
}

void plan_variables(const Environment& environment, LaunchPlan& plan) {
  // torchrun's rule: an existing value, even an empty one, is left alone.
  plan.set_omp_num_threads =
      plan.workers.size() > 1 && !lookup(environment, proto::env::kOmpNumThreads).has_value();
  if (plan.set_omp_num_threads) {
    plan.notes.push_back("OMP_NUM_THREADS is not set: every worker gets 1, so that " +
                         std::to_string(plan.workers.size()) +
                         " workers share the machine; set it to tune");
  }
  const bool piped = plan.streams.standard_output == StreamTransport::pipe ||
                     plan.streams.standard_error == StreamTransport::pipe;
  plan.set_python_unbuffered =
      piped && !lookup(environment, proto::env::kPythonUnbuffered).has_value();
}

}  // namespace

Outcome<LaunchPlan> make_plan(const LaunchOptions& options, const Environment& environment,
                              const Probes& probes) {
  LaunchPlan plan;
  plan.options = options;
  plan.notes = options.notes;
  plan.role = options.role;
  plan.max_restarts = options.max_restarts;
  plan.grace_period = options.grace_period;

  const ProgramRequest request{.program = options.program,
                               .arguments = options.arguments,
                               .module = options.module,
                               .no_python = options.no_python,
                               .executable_folder = probes.executable_folder};
  auto program = resolve_program(request, environment, *probes.files);
  if (!program) return program.error();
  plan.program = std::move(*program);

  const auto cuda_visible_devices = lookup(environment, proto::env::kCudaVisibleDevices);
  auto group = workers_and_devices(options, cuda_visible_devices, probes);
  if (!group) return group.error();
  plan.devices = std::move(group->devices);
  plan.notes.insert(plan.notes.end(), plan.devices.notes.begin(), plan.devices.notes.end());
  for (int rank = 0; rank < group->workers; ++rank) {
    plan.workers.push_back(
        {rank, worker_cuda_visible_devices(plan.devices, cuda_visible_devices, options.gpus,
                                           options.gpu_visibility, rank)});
  }
  plan.streams = plan_streams(options, group->workers, probes);
  if (const auto met = plan_meeting_point(options, probes, plan); !met) return met.error();
  plan_variables(environment, plan);
  return plan;
}

}  // namespace ddprun::launcher
