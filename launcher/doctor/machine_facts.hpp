// What ddprun doctor looks at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/environment.hpp"
#include "launcher/plan/plan.hpp"
#include "machine/processes/spawn.hpp"

namespace ddprun::launcher {

/// A program and the first line of its --version; that is empty where it does not run.
struct ProgramFacts {
  std::string file{};  ///< empty: not found
  std::string version{};
};

struct InstallationFacts {
  ProgramFacts ddprun{};
  ProgramFacts train{};
  ProgramFacts first_on_path{};  ///< of the name ddprun
  bool first_is_own = false;
};

struct PythonFacts {
  std::string file{};     ///< that runs scripts; empty: `problem` says why there is none
  std::string version{};  ///< empty: it does not run
  bool has_torch = false;
  bool is_wanted = false;  ///< PYTHON_EXEC names it
  std::string other_environment{};
  std::string problem{};
};

struct SystemFacts {
  std::string release{};  ///< of the kernel
  std::string machine{};
  std::string libc{};
  int usable_cpus = 0;
  int cpus = 0;
  std::string containment{};  ///< the level; empty: `problem` says why there is none
  std::string problem{};
};

struct GpuFacts {
  std::string found{};  ///< by ddprun: `0,1 (NVML)`
  bool others = false;  ///< `found` are devices of another vendor than NVIDIA
  bool driver = false;
  int device_files = 0;
  bool nvml_loads = false;
  bool cuda_loads = false;
};

/// None: unlimited.
struct LimitFacts {
  std::optional<std::uint64_t> open_files{};
  std::optional<std::uint64_t> open_files_hard{};
  std::optional<std::uint64_t> processes{};
  std::optional<std::uint64_t> core_bytes{};
};

struct FolderFacts {
  std::optional<std::uint64_t> memory_free{};  ///< of /dev/shm; none: it is missing
  bool memory_writable = false;
  std::string temporary{};
  bool temporary_usable = false;
};

struct PortFacts {
  int port = 0;
  std::string taken{};  ///< why it cannot be listened on; empty: it is free
};

/// What several nodes need for themselves.
struct NodesFacts {
  std::string openssl{};  ///< the library that loads; empty: none
  bool munge_loads = false;
  bool munge_runs = false;
  std::vector<PortFacts> ports;
  std::string host_name{};
  std::string host_address{};  ///< numeric; empty: the name has none
};

struct MachineFacts {
  InstallationFacts installation;
  PythonFacts python;
  SystemFacts system;
  GpuFacts gpus;
  LimitFacts limits;
  FolderFacts folders;
  std::string py_spy{};  ///< where it is on PATH; empty: it is not
  std::string gdb{};
  NodesFacts nodes;
};

inline constexpr const char* kMungeSocket = "/run/munge/munge.socket.2";

/// Looks at this machine; takes a fraction of a second.
MachineFacts look_at_machine(const Environment& environment, const Probes& probes,
                             const machine::UserState& user);

}  // namespace ddprun::launcher
