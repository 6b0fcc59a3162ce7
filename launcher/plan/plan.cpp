#include "launcher/plan/plan.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/joined.hpp"
#include "base/shell_word.hpp"
#include "launcher/options/option_table.hpp"
#include "launcher/plan/plan_parts.hpp"
#include "launcher/program/options_behind.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::launcher {
namespace {

struct WorkersAndDevices {
  int workers = 1;
  DevicesPlan devices;
  std::vector<std::string> unchecked;      // of CUDA_VISIBLE_DEVICES, where no GPU can be looked at
  std::vector<std::string> gpu_addresses;  // of the chosen GPUs, on the PCI bus
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

LaunchError too_few_listed(const LaunchOptions& options, int workers, std::size_t listed,
                           const std::string& cuda_visible_devices) {
  const std::string option =
      options.devices.virtual_local_rank ? "--virtual-local-rank" : "--gpu-visibility=own";
  return usage_error(option + ": " + std::to_string(workers) + " workers want a GPU each, but " +
                     "CUDA_VISIBLE_DEVICES=" + cuda_visible_devices + " names " +
                     std::to_string(listed) + "; use --nproc-per-node=" + std::to_string(listed) +
                     " or name more GPUs");
}

/// What the job may use: NVIDIA's GPUs, else, where they are asked for, what other vendors have.
machine::GpuDiscovery discover(const LaunchOptions& options, const Environment& environment,
                               const Probes& probes) {
  using Kind = ProcessCount::Kind;
  machine::GpuDiscovery discovered;
  if (options.devices.gpus.kind == GpuSelection::Kind::none) return discovered;
  const ProcessCount& processes = options.workers.processes;
  const bool others_only = processes.kind == Kind::devices && processes.word != "gpu";
  const bool asked_for = processes.kind == Kind::automatic || processes.kind == Kind::devices ||
                         options.devices.gpus.given;
  if (!others_only && (asked_for || probes.gpus_likely())) discovered = probes.discover_gpus();
  if (!discovered.gpus.empty()) return discovered;
  if (!asked_for && options.devices.gpu_visibility != GpuVisibility::own) return discovered;
  machine::GpuDiscovery others = probes.discover_accelerators(processes.word);
  if (!lookup(environment, others.variable) && lookup(environment, others.other_variable))
    others.variable = others.other_variable;
  if (const auto outer = lookup(environment, others.outer_variable)) hide_gpus(others, *outer);
  if (others.gpus.empty() && !discovered.looked_for.empty()) {
    others.looked_for.insert(
        0, others.looked_for.empty() ? discovered.looked_for : discovered.looked_for + ", ");
  }
  return others;
}

/// --gpus=free: as many as --nproc-per-node says, or N of them, or all.
LaunchResult<void> claim_free_gpus(const LaunchOptions& options,
                                   const machine::GpuDiscovery& discovered,
                                   const std::optional<std::string>& variable, const Probes& probes,
                                   DevicesPlan& devices) {
  const GpuSelection& gpus = options.devices.gpus;
  const ProcessCount& processes = options.workers.processes;
  if (devices.chosen.empty())
    return usage_error(gpus.spelling + ": " + no_gpu(discovered, variable));
  const bool counted =
      gpus.count == 0 && processes.given && processes.kind == ProcessCount::Kind::number;
  const int wanted = counted ? processes.number : gpus.count;
  return take_free_gpus(discovered, gpus, static_cast<std::size_t>(wanted), probes.claim_gpus,
                        devices);
}

/// By --nproc-per-node, or by the GPUs that were chosen.
int number_of_workers(const LaunchOptions& options, int gpus, const Probes& probes) {
  using Kind = ProcessCount::Kind;
  const ProcessCount& processes = options.workers.processes;
  const GpuSelection::Kind selected = options.devices.gpus.kind;
  if (processes.kind == Kind::devices || (processes.kind == Kind::automatic && gpus > 0))
    return gpus;
  if (processes.kind != Kind::number) return probes.logical_cpus();
  // A list of GPUs asks for a worker on each.
  const bool has_list =
      selected == GpuSelection::Kind::list || selected == GpuSelection::Kind::free;
  return !processes.given && has_list ? gpus : processes.number;
}

/// The entries of the variable, where each worker wants a GPU of its own and none can be looked at.
LaunchResult<std::vector<std::string>> unchecked_gpus(const LaunchOptions& options, int workers,
                                                      const std::string& variable) {
  auto entries = unchecked_entries(variable);
  const auto listed = entries.size();
  if (listed > 0 && static_cast<std::size_t>(workers) > listed)
    return too_few_listed(options, workers, listed, variable);
  return entries;
}

LaunchResult<WorkersAndDevices> workers_and_devices(const LaunchOptions& options,
                                                    const Environment& environment,
                                                    const Probes& probes) {
  using Kind = ProcessCount::Kind;
  const ProcessCount& processes = options.workers.processes;
  const GpuSelection& selection = options.devices.gpus;
  const bool cpu_job = selection.kind == GpuSelection::Kind::none;
  if (cpu_job && processes.kind == Kind::devices) {
    return usage_error("--nproc-per-node=" + processes.word +
                       " and --gpus=none exclude each other; give a number or cpu");
  }
  const machine::GpuDiscovery discovered = discover(options, environment, probes);
  const auto variable = lookup(environment, discovered.variable);

  WorkersAndDevices result;
  auto devices = plan_devices(discovered, variable, selection);
  if (!devices) return devices.error();
  result.devices = std::move(*devices);
  if (selection.kind == GpuSelection::Kind::free) {
    const auto claimed = claim_free_gpus(options, discovered, variable, probes, result.devices);
    if (!claimed) return claimed.error();
  }
  if (options.workers.numa_binding) {
    for (const std::string& entry : result.devices.chosen)
      result.gpu_addresses.push_back(machine::pci_address_of(discovered, entry));
  }

  const auto gpus = static_cast<int>(result.devices.chosen.size());
  if (processes.kind == Kind::devices && gpus == 0) {
    return usage_error("--nproc-per-node=" + processes.word + ": " + no_gpu(discovered, variable) +
                       "; give a number, cpu or auto");
  }
  result.workers = number_of_workers(options, gpus, probes);
  const bool one_each = options.devices.gpu_visibility == GpuVisibility::own;
  if (gpus > 0 && result.workers > gpus && (processes.kind != Kind::cpu || one_each))
    return too_many_workers(result.workers, result.devices);
  if (one_each && !cpu_job && discovered.gpus.empty() && variable) {
    auto unchecked = unchecked_gpus(options, result.workers, *variable);
    if (!unchecked) return unchecked.error();
    result.unchecked = std::move(*unchecked);
  }
  return result;
}

/// Python holds back what it writes to anything but a terminal, and lines would come too late.
bool wants_unbuffered_python(const Environment& environment, const LaunchPlan& plan) {
  if (lookup(environment, proto::env::kPythonUnbuffered)) return false;
  const auto& workers = plan.agent.workers;
  return std::any_of(workers.begin(), workers.end(), [](const agent::WorkerSettings& worker) {
    return worker.standard_output.mode == agent::StreamMode::pipe ||
           worker.standard_error.mode == agent::StreamMode::pipe;
  });
}

/// The variable of the devices, for a worker. Where no GPU can be looked at, worker i gets the i-th
/// entry of the user's list; without a list torchrun gives it the number i under
/// --virtual-local-rank.
std::optional<std::string> visible_devices(const LaunchOptions& options, const LaunchPlan& plan,
                                           const std::vector<std::string>& unchecked,
                                           const std::optional<std::string>& inherited,
                                           int local_rank) {
  if (!unchecked.empty()) return unchecked[static_cast<std::size_t>(local_rank)];
  if (options.devices.virtual_local_rank && !plan.devices.cpu_job && plan.devices.chosen.empty() &&
      !inherited) {
    return std::to_string(local_rank);
  }
  return worker_visible_devices(plan.devices, inherited, options.devices.gpus,
                                options.devices.gpu_visibility, local_rank);
}

std::vector<std::string> arguments_of(const ProgramChoice& program, int local_rank) {
  std::vector<std::string> argv = program.argv;
  for (std::size_t i = 1; i < argv.size(); ++i)
    argv[i] = substitute_local_rank(argv[i], local_rank);
  return argv;
}

void take_devices(const LaunchOptions& options, DevicesPlan devices, LaunchPlan& plan) {
  plan.devices = std::move(devices);
  plan.agent.environment.devices_variable = plan.devices.variable;
  if (!plan.devices.claims.empty())
    plan.notes.push_back(options.devices.gpus.spelling + ": the job has GPU " +
                         joined(plan.devices.chosen, ","));
  for (const machine::GpuClaim& claim : plan.devices.claims)
    plan.agent.checks.claimed_gpus.push_back(claim.gpu.entry + "=" + claim.gpu.uuid);
  plan.warnings.insert(plan.warnings.end(), plan.devices.warnings.begin(),
                       plan.devices.warnings.end());
}

/// Program and devices must be there.
void make_workers(const LaunchOptions& options, const Environment& environment,
                  const WorkersAndDevices& group, LaunchPlan& plan) {
  const auto inherited = lookup(environment, plan.devices.variable);
  plan.agent.program.file = plan.program.file;
  plan.agent.environment.virtual_local_rank = options.devices.virtual_local_rank;
  for (int rank = 0; rank < group.workers; ++rank) {
    agent::WorkerSettings worker;
    worker.argv = arguments_of(plan.program, rank);
    worker.visible_devices = visible_devices(options, plan, group.unchecked, inherited, rank);
    plan.agent.workers.push_back(std::move(worker));
  }
}

/// python, python3, python3.14t: not what only has such a name, as python_train.sh.
bool is_run_by_python(const ProgramChoice& program) {
  using Kind = ProgramChoice::Kind;
  constexpr std::string_view kPython = "python";
  const std::string name = program.file.substr(program.file.rfind('/') + 1);
  return program.kind == Kind::python_script || program.kind == Kind::python_module ||
         (name.starts_with(kPython) &&
          name.find_first_not_of("0123456789.t", kPython.size()) == std::string::npos);
}

/// Only Python's own start leaves a place for it.
LaunchResult<void> plan_preload(const LaunchOptions& options, LaunchPlan& plan) {
  if (options.program.preload.empty()) return {};
  if (!is_run_by_python(plan.program)) {
    return usage_error(options.program.preload_spelling + ": " + plan.program.name +
                       " is not run by Python; name the script or module itself, as in ddprun "
                       "--preload=auto train.py");
  }
  plan.agent.program.preload = options.program.preload;
  return {};
}

/// What the workers execute, and what to say about it.
LaunchResult<void> plan_program(const LaunchOptions& options, const Environment& environment,
                                const Probes& probes, LaunchPlan& plan) {
  const ProgramRequest request{.program = options.program.name,
                               .arguments = options.program.arguments,
                               .module = options.program.module,
                               .no_python = options.program.no_python,
                               .python = options.program.run_path,
                               .executable_folder = probes.executable_folder};
  auto program = resolve_program(request, environment, *probes.files);
  if (!program) return program.error();
  plan.program = std::move(*program);
  if (plan.program.kind != ProgramChoice::Kind::bundled)
    plan.agent.report.program.arguments = spelled_as_ours(options.program.arguments);
  if (!plan.program.other_environment.empty() &&
      lookup(environment, "PYTHON_EXEC").value_or("").empty()) {
    plan.notes.push_back("the workers run under " + plan.program.python +
                         ", not under the active environment " + plan.program.other_environment +
                         "; to change that, set PYTHON_EXEC=" +
                         shell_word(plan.program.other_environment + "/bin/python"));
  }
  if (const auto planned = plan_preload(options, plan); !planned) return planned.error();
  if (auto warning =
          launcher_options_behind(plan.program, options.program.arguments.size(), *probes.files);
      !warning.empty()) {
    plan.warnings.push_back(std::move(warning));
  }
  if (auto note = add_local_rank_argument(plan.program, options.program.arguments.size(),
                                          options.program.local_rank_argument, *probes.files);
      !note.empty()) {
    plan.notes.push_back(std::move(note));
  }
  return {};
}

spdlog::level::level_enum log_level(LogLevel level) {
  constexpr std::array kLevels = {spdlog::level::trace, spdlog::level::debug, spdlog::level::info,
                                  spdlog::level::warn,  spdlog::level::err,   spdlog::level::off};
  return kLevels.at(static_cast<std::size_t>(level));
}

}  // namespace

LaunchResult<LaunchPlan> make_plan(const LaunchOptions& given, const Environment& environment,
                                   const Probes& probes) {
  auto cluster = with_cluster(given, environment);
  if (!cluster) return cluster.error();
  const LaunchOptions& options = cluster->options;
  LaunchPlan plan;
  plan.cluster = std::move(cluster->use);
  if (!options.ssh_node) plan.scheduler_processes = scheduler_processes(environment);
  if (!plan.cluster.hint.empty()) plan.notes.push_back(plan.cluster.hint);
  plan.warnings = options.warnings;
  plan.agent.node.name = options.ssh_node ? options.ssh_node->name : probes.host_name;
  plan.agent.node.role = options.workers.role;
  plan.agent.streams.log_level = log_level(options.log_level);
  plan_end_of_job(options, environment, plan);
  plan_rounds(options, environment, plan);

  if (const auto found = plan_program(options, environment, probes, plan); !found)
    return found.error();

  auto group = workers_and_devices(options, environment, probes);
  if (!group) return group.error();
  take_devices(options, std::move(group->devices), plan);
  make_workers(options, environment, *group, plan);
  plan_streams(options, probes, plan);
  if (const auto contained = plan_containment(options, probes, plan); !contained)
    return contained.error();
  if (const auto met = plan_meeting_point(options, environment, probes, plan); !met)
    return met.error();
  if (const auto checked = check_chaos(plan); !checked) return checked.error();
  const auto placed = plan_cpus(options, environment, probes, group->gpu_addresses, plan);
  if (!placed) return placed.error();
  plan.agent.environment.python_unbuffered = wants_unbuffered_python(environment, plan);
  return plan;
}

}  // namespace ddprun::launcher
