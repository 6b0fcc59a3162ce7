// The typed form of the command line. It is filled in one place, from the generic result of the
// parser.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/chaos/chaos_plan.hpp"
#include "agent/job_settings.hpp"
#include "base/endpoint.hpp"
#include "launcher/options/launch_error.hpp"
#include "launcher/options/log_options.hpp"
#include "launcher/options/parser.hpp"
#include "launcher/options/rdzv_conf.hpp"
#include "machine/cpus/placement.hpp"
#include "machine/processes/stop_settings.hpp"
#include "rendezvous/membership/restart_policy.hpp"
#include "texts/log_level.hpp"

namespace ddprun::launcher {

/// What the user asked for. Everything but `run` ends without starting a worker.
enum class Request {
  run,
  dry_run,
  dry_run_json,
  explain_policy,
  make_secret,
  doctor,
  help,
  short_help,
  version,
  man_page,
  completion
};

/// --nproc-per-node before the machine was looked at.
struct ProcessCount {
  enum class Kind { number, automatic, cpu, devices } kind = Kind::number;
  int number = 1;      ///< at least 1; only for Kind::number
  std::string word{};  ///< gpu, xpu, npu or hpu; only for Kind::devices
  bool given = false;  ///< false: not given, so 1
};

/// --gpus before the machine was looked at.
struct GpuSelection {
  enum class Kind { all, none, list, free } kind = Kind::all;
  /// Places in the list of visible GPUs, each at most once; only for Kind::list.
  std::vector<int> list;
  int count = 0;  ///< only for Kind::free: how many; 0: as many as there are
  bool given = false;
  std::string spelling{};  ///< as typed, with the value; empty: not given
};

enum class GpuVisibility { all, own };
enum class OutputMode { prefix, raw, pty, pipe };
using agent::OnSilence;
using agent::StdinMode;
using ddprun::LogLevel;
using machine::NumaBinding;
/// The argument of torch.distributed.launch: `--local-rank=N` or `--local_rank=N`.
enum class LocalRankArgument { automatic, dash, underscore, none };
enum class WorkerStore { agent, rank0 };
/// By what nodes and their rendezvous know each other: a secret, if there is one; always a secret;
/// their user, by MUNGE.
enum class RdzvAuth { automatic, required, munge };

/// --contain.
enum class Containment { automatic, tree, cgroup, pidns };
/// What a failed job ends with: the culprit's own exit code, or 1.
enum class ExitCodeRule { first, one };

/// --omp-threads.
struct OmpThreads {
  enum class Kind { as_torchrun, automatic, number } kind = Kind::as_torchrun;
  int number = 1;  ///< only for Kind::number
};

/// --nnodes.
struct NodeCount {
  int min = 1;
  int max = 1;
  std::string spelling{};  ///< as typed, with the value
  bool given = false;      ///< false: not given, so 1
};

/// --port-range, both ends included.
struct PortBounds {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

/// Which text is asked for, for the requests that print one.
struct TextsOptions {
  std::string topic;             ///< of the help; empty: all
  std::string word_behind;       ///< the next word, if it is no option: it may be a topic
  std::string man_format;        ///< roff or markdown
  std::string completion_shell;  ///< bash, zsh, fish or tcsh
};

struct WorkersOptions {
  ProcessCount processes;
  std::string role = "default";
  OmpThreads omp_threads;
  std::optional<machine::NumaBinding> numa_binding;
};

/// PROGRAM, and how it is run.
struct ProgramOptions {
  std::string name;
  std::vector<std::string> arguments;  ///< untouched: never looked at
  bool module = false;                 ///< it is a Python module
  bool no_python = false;              ///< never run it under Python
  bool run_path = false;               ///< it is a Python file, whatever its name
  LocalRankArgument local_rank_argument = LocalRankArgument::automatic;
  std::vector<std::string> preload;  ///< Python modules, or `auto`; empty: not given
  std::string preload_spelling;      ///< as typed, with the value
};

struct DevicesOptions {
  GpuSelection gpus;
  GpuVisibility gpu_visibility = GpuVisibility::all;
  bool virtual_local_rank = false;  ///< LOCAL_RANK is 0 everywhere; gpu_visibility is own then
};

struct OutputOptions {
  std::optional<OutputMode> mode;  ///< empty: chosen by the number of workers
  StdinMode standard_input = StdinMode::rank0;
  LogOptions logs;
};

/// What counts as a failure, what follows one, and how workers are stopped.
struct FailuresOptions {
  proto::RestartSettings restart;
  agent::WatchSettings watch;
  machine::StopSettings stop;
  bool grace_period_given = false;
  Containment containment = Containment::automatic;
  std::string preflight;  ///< empty: not given
  std::chrono::milliseconds preflight_timeout = std::chrono::minutes(5);
  agent::CommandSettings commands;
  std::optional<agent::ChaosPlan> chaos;
};

struct ReportOptions {
  std::string file;       ///< empty: not given
  std::string event_log;  ///< empty: not given
  ExitCodeRule exit_code_rule = ExitCodeRule::first;
};

/// Which nodes take part, and which of them this one is.
struct NodesOptions {
  NodeCount count;
  std::optional<int> rank;    ///< empty: not given
  std::string rank_spelling;  ///< as typed, with the value
  std::optional<int> max_changes;
  std::optional<std::chrono::milliseconds> grow_delay = std::chrono::seconds(5);  ///< empty: never
  bool standalone = false;
  std::string local_addr;  ///< empty: not given
};

/// Where the nodes meet, and by what they know each other.
struct RendezvousOptions {
  std::string backend = "static";
  bool backend_given = false;
  std::optional<std::string> run_id;     ///< empty: not given
  std::optional<Endpoint> endpoint;      ///< empty: not given
  std::vector<Endpoint> more_endpoints;  ///< of several rdzvd, behind the first one
  RdzvConf conf;
  RdzvAuth auth = RdzvAuth::automatic;
  std::string secret_file;  ///< empty: not given
  bool tls = false;         ///< also true with a file of authorities
  std::string tls_ca;       ///< empty: the key comes from the secret
  std::string tls_cert;     ///< empty: this node has no certificate
  std::string tls_key;      ///< empty: this node has no certificate
};

/// The workers' store, and the ports on which this node listens.
struct StoreOptions {
  std::string master_addr;                   ///< empty: not given
  std::optional<std::uint16_t> master_port;  ///< empty: not given
  std::optional<PortBounds> ports;           ///< empty: any
  WorkerStore host = WorkerStore::agent;
  agent::StoreUsers users;
};

/// The job runs on other hosts, and this ddprun is their launcher.
struct HostsOptions {
  std::string list;         ///< --hosts; empty: not given
  std::string file;         ///< --hostfile; empty: not given
  std::string spelling;     ///< of the one that is given, with its value; empty: none is
  std::string ssh = "ssh";  ///< --ssh
  std::string ssh_spelling;
  std::string remote_path;  ///< empty: not given
  std::string pass_env;     ///< empty: not given
};

/// What a launcher has told this ddprun, which it started through ssh as one node of its job.
struct SshNode {
  std::string name;    ///< of the host, as the launcher's user wrote it
  std::string socket;  ///< leads to the rendezvous
  std::string secret;  ///< of the job
  std::string addr;    ///< numeric: by which other hosts reach this one
  bool wants_error_file = false;
  bool stdout_is_terminal = false;  ///< the launcher's
  bool stderr_is_terminal = false;
};

/// The command line, a group for each subject.
struct LaunchOptions {
  Request request = Request::run;
  TextsOptions texts;
  WorkersOptions workers;
  ProgramOptions program;
  DevicesOptions devices;
  OutputOptions output;
  FailuresOptions failures;
  ReportOptions report;
  NodesOptions nodes;
  RendezvousOptions rendezvous;
  StoreOptions store;
  HostsOptions hosts;
  std::optional<SshNode> ssh_node;  ///< set by the launcher, by no option
  LogLevel log_level = LogLevel::warning;

  /// Warnings to print once on stderr before anything starts: options without effect, empty
  /// variables.
  std::vector<std::string> warnings;
};

/// The nodes of the job meet over an etcd that runs elsewhere.
[[nodiscard]] inline bool meets_over_etcd(const LaunchOptions& options) {
  return options.rendezvous.backend == "etcd" || options.rendezvous.backend == "etcd-v2";
}

/// Checks what no single row can check and gives the values their types.
LaunchResult<LaunchOptions> launch_options(const ParsedCommandLine& parsed,
                                           const Environment& environment);

/// Parses the real table: `arguments` without the program's own name.
LaunchResult<LaunchOptions> parse_launch_options(const std::vector<std::string>& arguments,
                                                 const Environment& environment);

}  // namespace ddprun::launcher
