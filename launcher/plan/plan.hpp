// The launch plan: everything that is decided before anything starts. Data goes one way: command
// line -> plan -> agent.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/system/result.hpp>

#include "agent/config.hpp"
#include "launcher/cluster/cluster_options.hpp"
#include "launcher/options/environment.hpp"
#include "launcher/options/launch_error.hpp"
#include "launcher/options/options.hpp"
#include "launcher/plan/devices_plan.hpp"
#include "launcher/program/program.hpp"
#include "machine/cpus/topology.hpp"
#include "machine/devices/devices.hpp"
#include "rendezvous/service/hosting.hpp"
#include "rendezvous/tls/tls.hpp"
#include "warden/warden.hpp"

namespace ddprun::launcher {

/// The folder of one run for log files.
struct LogFolderPlan {
  bool wanted = false;
  std::string base;  ///< where it is made; empty: in TMPDIR, else /tmp
};

/// What follows the job's end.
struct ReportPlan {
  std::string file;        ///< --report-file; empty: none
  std::string error_file;  ///< TORCHELASTIC_ERROR_FILE of our own; empty: no copy is wanted
  ExitCodeRule exit_code_rule = ExitCodeRule::first;
};

struct LaunchPlan {
  ProgramChoice program;  ///< argv before substitute_local_rank
  DevicesPlan devices;
  LogFolderPlan log_folder;
  ReportPlan report;
  ClusterUse cluster;  ///< what the scheduler has said in place of options
  /// Names from scheduler_processes(): the job ends when an ancestor of ours with such a name does.
  std::vector<std::string> scheduler_processes;
  /// Dry runs of several nodes: which node would serve the rendezvous, as names resolve now. None:
  /// the endpoint's name does not resolve.
  std::optional<rdzv::HostingChoice> hosting;
  /// Complete but for what is made at the start: `log_folder` and `run_directory`.
  agent::AgentConfig agent;
  /// Complete but for what main adds at the start: `run_directory`, `title_room` and the work
  /// beside.
  warden::WardenSettings warden;

  /// Lines to print once on stderr before anything starts, in this order: what the user should
  /// look at, then what is good to know.
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
};

/// What make_plan asks of the machine; each function is called only where the answer matters.
struct Probes {
  const FileProbe* files = nullptr;
  std::function<bool()> gpus_likely;
  std::function<machine::GpuDiscovery()> discover_gpus;
  /// Looks for devices of other vendors than NVIDIA, see machine/devices/devices.hpp.
  std::function<machine::GpuDiscovery(const std::string& word)> discover_accelerators;
  ClaimGpus claim_gpus;
  std::function<int()> logical_cpus;
  std::function<int()> usable_cpus;  ///< by affinity and cgroup quota, at least 1
  /// Where the CPUs and these GPUs (PCI addresses) are.
  std::function<machine::MachineTopology(const std::vector<std::string>& pci_addresses)> topology;
  std::function<std::string()> new_run_id;  ///< date and time, and a random part
  std::function<bool()> cgroup_possible;    ///< we may make a cgroup below ours
  std::function<bool()> cgroup_delegated;   ///< and ours was given to us for that
  /// A host name's numeric address; empty when it did not resolve within the limit.
  std::function<std::optional<std::string>(const std::string&, std::chrono::milliseconds)>
      resolve_host;
  std::function<std::vector<std::string>()> own_addresses;  ///< numeric, of all interfaces
  /// See read_secret_file.
  std::function<boost::system::result<std::string, std::string>(const std::string& path)>
      read_secret;
  /// See read_password_file.
  std::function<boost::system::result<std::string, std::string>(const std::string& path)>
      read_password;
  /// See rendezvous/munge/munge.hpp.
  std::function<std::shared_ptr<proto::Credentials>(std::string socket)> munge;
  /// See rendezvous/tls/tls.hpp.
  std::function<boost::system::result<std::shared_ptr<const proto::Encrypter>, std::string>()>
      open_tls;
  std::function<boost::system::result<rdzv::CertificateTls, std::string>(
      const rdzv::CertificateSettings&)>
      open_certificates;
  std::function<std::string()> boot_id;  ///< of the running kernel; empty: not known
  std::string executable_folder;         ///< of ddprun itself
  std::string host_name;
  bool stdout_is_terminal = false;
  bool stderr_is_terminal = false;
  bool one_output = false;  ///< stdout and stderr are the same terminal, file or pipe
};

/// The real ones; what they point to lives as long as the process.
Probes machine_probes();

/// Decides everything, or says why nothing can be started. Only for Request::run and the dry runs.
LaunchResult<LaunchPlan> make_plan(const LaunchOptions& options, const Environment& environment,
                                   const Probes& probes);

/// --rdzv-secret-file, else `ddprun/secret` in the user's folder for settings; empty: there is no
/// such folder, as neither XDG_CONFIG_HOME nor HOME is set.
std::string secret_path(const LaunchOptions& options, const Environment& environment);

}  // namespace ddprun::launcher
