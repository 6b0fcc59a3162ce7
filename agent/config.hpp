// What the agent is told once, before anything starts. Plain data; part of the launch plan.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <spdlog/common.h>

#include "agent/chaos/chaos_plan.hpp"
#include "agent/job_settings.hpp"
#include "agent/streams/log_settings.hpp"
#include "base/endpoint.hpp"
#include "machine/cpus/cpu_set.hpp"
#include "machine/processes/containment_level.hpp"
#include "machine/processes/stop_settings.hpp"
#include "proto/credentials.hpp"
#include "proto/encryption.hpp"
#include "proto/job_settings.hpp"
#include "proto/membership_messages.hpp"
#include "rendezvous/etcd/etcd_access.hpp"
#include "rendezvous/etcd/etcd_url.hpp"
#include "rendezvous/service/hosting.hpp"

namespace ddprun::agent {

/// Where a worker's output stream goes.
enum class StreamMode {
  inherit,  ///< the worker has our own descriptor
  pty,      ///< a pseudo-terminal; lines are prefixed
  pipe,     ///< a pipe; lines are prefixed
  copy,     ///< a pipe; every byte goes on to our own output as it comes
  file,     ///< its log file, which the worker writes itself
  null,     ///< /dev/null
};

struct StreamSettings {
  StreamMode mode = StreamMode::inherit;
  bool to_console = true;  ///< pty, pipe and copy: shown
  bool to_file = false;    ///< pipe: its bytes also go to its log file
};

struct WorkerSettings {
  std::vector<std::string> argv;               ///< `${local_rank}` replaced
  std::optional<std::string> visible_devices;  ///< value of devices_variable; none: it stays
  std::optional<int> omp_threads;              ///< OMP_NUM_THREADS; none: stays as it is
  StreamSettings standard_output;
  StreamSettings standard_error;
  machine::CpuSet cpus;  ///< where it may run; empty: where we may
};

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;  ///< included
};

/// How this machine is called.
struct OwnPlace {
  std::string name;  ///< empty: that of the node
  std::string addr;  ///< by which others reach this node; empty: by which it reaches them
  /// With etcd: the same as it was typed, by which others find and check a rendezvous here. Empty:
  /// `addr`.
  std::string typed_addr;
};

/// Where this node meets the others of its job.
struct RendezvousSettings {
  Endpoint endpoint;  ///< as the user gave it, with its port
  /// Further ports there: the service takes the first one that is free, the other nodes try all.
  std::vector<std::uint16_t> more_ports;
  /// Further rdzvd that share a journal with the one at the endpoint, each with its port.
  std::vector<Endpoint> more_endpoints;
  /// The nodes meet over etcd, and these endpoints are its members: the service is in agents of the
  /// job, which stand in etcd below this prefix. None: the service is at the endpoint.
  std::optional<rdzv::EtcdPlace> etcd;
  rdzv::EtcdAccess etcd_access;  ///< with etcd
  bool may_host = true;          ///< with etcd: this agent may have the service
  rdzv::HostingWish hosting = rdzv::HostingWish::automatic;
  /// The workers' store is reached at the endpoint, too, as under torchrun's static rendezvous.
  bool one_port = false;
  std::optional<int> node_rank;
  bool insists_on_rank = false;  ///< without that rank it cannot take part
  /// Leads to the service instead of the endpoint, which is then only its name: a Unix socket that
  /// ssh forwards. Empty: none.
  std::string socket;
  OwnPlace own;
  std::string secret;        ///< that every agent of the job has; empty: none
  bool needs_proof = false;  ///< join no rendezvous that does not have it
  /// By which nodes of the same user get the secret of a rendezvous that has made one, if they have
  /// none of the job. Null: they do not.
  std::shared_ptr<proto::Credentials> credentials;
  bool makes_secret = false;  ///< a rendezvous here makes one, for those alone
  /// Encrypts what crosses the network between nodes and their rendezvous. Null: it is not
  /// encrypted.
  std::shared_ptr<const proto::Encrypter> encrypter;
  std::chrono::nanoseconds lease = std::chrono::seconds(15);
  std::chrono::nanoseconds lost_timeout = std::chrono::seconds(300);
};

/// A command that tells whether this node is sound.
struct PreflightSettings {
  std::string command;  ///< as a shell takes it
  std::chrono::nanoseconds timeout = std::chrono::minutes(5);
};

/// The node as the others see it.
struct NodeIdentity {
  std::string name;
  std::string boot_id;  ///< of the running kernel; empty: not known
  std::string role = "default";
};

/// What is looked at before workers start.
struct CheckSettings {
  std::optional<PreflightSettings> preflight;  ///< none: the node takes part without a check
  /// The GPUs of --gpus=free, `entry=UUID` each: a restart waits for them until nothing uses them.
  std::vector<std::string> claimed_gpus;
};

/// Where the workers of a round meet.
struct StoreSettings {
  /// Numeric address on which the round's store listens; empty: by which others reach this node.
  std::string host;
  std::string master_addr;         ///< what workers are told; empty: that address
  std::uint16_t master_port = 0;   ///< 0: the kernel chooses
  std::optional<PortRange> ports;  ///< it may choose from; none: any
  bool in_agent = true;            ///< false: the worker of rank 0 serves the store itself
  StoreUsers users;
};

/// What of the workers' streams the user sees, and how.
struct ShownStreams {
  StdinMode standard_input = StdinMode::rank0;
  std::string prefix_template = "[rank${rank}] ";  ///< before a line; see LinePrefix
  bool fold_stdout = false;  ///< the same line of several workers is shown once
  bool fold_stderr = false;
  bool colour_stdout = false;  ///< the prefixes there
  bool colour_stderr = false;
  spdlog::level::level_enum log_level = spdlog::level::warn;  ///< ddprun's own lines
};

/// What the workers find in their environment, beyond what torchrun's find.
struct EnvironmentSettings {
  std::string devices_variable = "CUDA_VISIBLE_DEVICES";  ///< workers see the devices it names
  bool virtual_local_rank = false;                        ///< LOCAL_RANK is 0 everywhere
  bool python_unbuffered = false;                         ///< PYTHONUNBUFFERED=1
};

/// torch's timers.
struct TimerSettings {
  bool watched = false;
  std::string file;  ///< for them; empty: one in the run directory
};

/// What the report needs.
struct ReportSettings {
  proto::ProgramFacts program;    ///< wherever it is printed
  bool wanted = false;            ///< it goes to a file here
  bool keep_error_files = false;  ///< the launcher copies the culprit's to a file of its own
  std::string event_file;         ///< for the events of this node; empty: none
};

/// What all workers execute.
struct ProgramSettings {
  std::string file;
  /// Python modules that one process of this node imports for all workers; `auto`: those that the
  /// program imports at its top. Empty: each worker imports for itself.
  std::vector<std::string> preload;
};

struct AgentConfig {
  std::string run_id;
  NodeIdentity node;
  ProgramSettings program;
  std::vector<WorkerSettings> workers;  ///< one for each local rank
  proto::JobSettings job;
  WatchSettings watch;
  TimerSettings timers;
  CheckSettings checks;
  CommandSettings commands;
  std::optional<ChaosPlan> chaos;  ///< none: nothing is broken on purpose
  machine::StopSettings stop;
  /// The level that the warden has arranged.
  machine::ContainmentLevel containment = machine::ContainmentLevel::tree;
  std::optional<RendezvousSettings> rendezvous;  ///< none: the job has this node only
  StoreSettings store;
  ShownStreams streams;
  LogSettings logs;
  EnvironmentSettings environment;
  ReportSettings report;
  std::string start_note;     ///< a line for when the first workers start; empty: none
  std::string run_directory;  ///< for error files and progress pages; empty: none could be made
};

}  // namespace ddprun::agent
