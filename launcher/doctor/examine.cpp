#include "launcher/doctor/examine.hpp"

#include <cstdio>

#include <fmt/format.h>

#include "base/shell_word.hpp"

namespace ddprun::launcher {
namespace {

using Findings = std::vector<Finding>;

constexpr int kFilesOfAgent = 32;
constexpr int kFilesOfWorker = 5;
constexpr std::uint64_t kFewProcesses = 1024;
constexpr std::uint64_t kLittleMemory = 64U << 20U;
constexpr const char* kUnreachable =
    "other nodes can't reach this name: give them an address, and --local-addr here";

std::string folder_of(const std::string& file) { return file.substr(0, file.rfind('/')); }

Findings about_installation(const InstallationFacts& facts) {
  const std::string& own = facts.ddprun.file;
  Findings found{{"ddprun", fmt::format("{}: {}", own, facts.ddprun.version)}};
  const std::string only_train = "only the bundled trainer can't be started: ";
  if (facts.train.file.empty()) {
    found.push_back(
        {"train", "missing from this installation", only_train + "install ddprun again"});
  } else if (facts.train.version.empty()) {
    found.push_back({"train", facts.train.file + ": does not run",
                     only_train + "type that path to see the error"});
  } else {
    found.push_back({"train", fmt::format("{}: {}", facts.train.file, facts.train.version)});
  }
  const std::string to_path = "export PATH=" + shell_word(folder_of(own)) + ":$PATH";
  const ProgramFacts& first = facts.first_on_path;
  if (first.file.empty()) {
    found.push_back(
        {"on PATH", "no ddprun", fmt::format("type {}, or {}", shell_word(own), to_path)});
  } else if (facts.first_is_own) {
    found.push_back({"on PATH", first.file});
  } else {
    found.push_back({"on PATH",
                     fmt::format("{} comes first: {}", first.file,
                                 first.version.empty() ? "does not run" : first.version),
                     fmt::format("the command ddprun is that one, not {}: type that path, or {}",
                                 own, to_path)});
  }
  return found;
}

Findings about_python(const PythonFacts& facts) {
  if (facts.file.empty()) return {{"Python", "not found", facts.problem}};
  if (facts.version.empty())
    return {{"Python", facts.file + ": does not run",
             "scripts can't be started: type that path to see the error"}};
  Findings found{{"Python", fmt::format("{}, {}{}", facts.version, facts.file,
                                        facts.is_wanted ? " (PYTHON_EXEC)" : "")}};
  if (!facts.other_environment.empty())
    found.push_back({"environment", facts.other_environment + " is active",
                     "scripts run under the Python above: to change that, set PYTHON_EXEC=" +
                         shell_word(facts.other_environment + "/bin/python")});
  found.push_back({"PyTorch", facts.has_torch ? "found" : "not found by this Python",
                   facts.has_torch ? "" : "scripts that import it fail; ddprun does not need it"});
  return found;
}

/// The two first numbers of `6.1.0-13-amd64`.
std::pair<int, int> numbers_of(const std::string& release) {
  std::pair<int, int> numbers{0, 0};
  std::sscanf(release.c_str(), "%d.%d", &numbers.first, &numbers.second);
  return numbers;
}

Findings about_system(const SystemFacts& facts) {
  std::string cost;
  if (numbers_of(facts.release) < std::pair(4, 18)) {
    cost = "older than 4.18: not supported";
  } else if (numbers_of(facts.release) < std::pair(5, 4)) {
    cost = "without pidfds (5.4): workers are waited for by pid";
  }
  return {{"kernel", facts.release + " on " + facts.machine, cost},
          {"libc", facts.libc.empty() ? "unknown" : facts.libc},
          {"CPUs", fmt::format("{} usable of {}", facts.usable_cpus, facts.cpus)}};
}

Findings about_gpus(const GpuFacts& facts) {
  Findings found{{"ddprun finds", facts.found}};
  if (!facts.driver && facts.device_files == 0) {
    found.push_back({"NVIDIA driver", "not found", facts.others ? "" : "jobs run on CPUs"});
    return found;
  }
  found.push_back({"NVIDIA driver", fmt::format("{} GPUs in /dev", facts.device_files),
                   facts.device_files > 0
                       ? ""
                       : "jobs run on CPUs; start a container with its GPUs (docker: --gpus=all)"});
  const auto library = [&](const char* name, bool loads, const char* cost) {
    found.push_back({name, loads ? "loads" : "not found", loads ? "" : cost});
  };
  library("libnvidia-ml.so.1", facts.nvml_loads, "ddprun finds GPUs by /dev alone");
  library("libcuda.so.1", facts.cuda_loads, "no program can use the GPUs");
  return found;
}

Findings about_containment(const SystemFacts& facts) {
  if (facts.containment.empty()) return {{"level", "unknown", facts.problem}};
  return {{"level", facts.containment,
           facts.containment != "tree"
               ? ""
               : "if ddprun and its agent are killed at the same instant, detached processes may "
                 "live on; with --contain=cgroup or pidns none does"}};
}

std::string limit_text(std::optional<std::uint64_t> value) {
  return value ? fmt::format("{}", *value) : "unlimited";
}

Findings about_limits(const LimitFacts& facts, int cpus) {
  const auto wanted = static_cast<std::uint64_t>(kFilesOfAgent + kFilesOfWorker * cpus);
  const bool few = facts.open_files_hard && *facts.open_files_hard < wanted;
  const bool low = facts.processes && *facts.processes < kFewProcesses;
  const bool none = facts.core_bytes && *facts.core_bytes == 0;
  return {{"open files",
           fmt::format("{}, may be raised to {}", limit_text(facts.open_files),
                       limit_text(facts.open_files_hard)),
           few ? fmt::format("one worker for each CPU needs up to {}: ulimit -Hn", wanted) : ""},
          {"processes", limit_text(facts.processes),
           low ? "threads of all your programs count: workers may fail to start (ulimit -u)" : ""},
          {"core files", limit_text(facts.core_bytes),
           none ? "a crash leaves no core file (ulimit -c unlimited)" : ""}};
}

Findings about_folders(const FolderFacts& facts) {
  constexpr const char* kOnDisk = "progress pages lie in TMPDIR, on a disk";
  Findings found;
  if (!facts.memory_free) {
    found.push_back({"/dev/shm", "missing", kOnDisk});
  } else if (!facts.memory_writable) {
    found.push_back({"/dev/shm", "not writable", kOnDisk});
  } else {
    found.push_back({"/dev/shm", fmt::format("{} MiB free", *facts.memory_free >> 20U),
                     *facts.memory_free >= kLittleMemory
                         ? ""
                         : "little: data loaders of PyTorch may fail with a bus error (docker: "
                           "--shm-size=1g)"});
  }
  found.push_back(
      {"TMPDIR", facts.temporary,
       facts.temporary_usable ? "" : "no folder that you can write to: --log-dir has to name one"});
  return found;
}

Findings about_debuggers(const MachineFacts& facts) {
  const auto finding = [](const char* name, const std::string& file, const char* cost) {
    return Finding{name, file.empty() ? "not found" : file, file.empty() ? cost : ""};
  };
  return {finding("py-spy", facts.py_spy, "a hang shows no Python lines (pip install py-spy)"),
          finding("gdb", facts.gdb, "a hang shows no C frames")};
}

Findings about_protection(const NodesFacts& facts) {
  std::string munge = facts.munge_loads ? "libmunge.so.2" : "not found";
  if (facts.munge_loads && !facts.munge_runs) munge += fmt::format(", but no {}", kMungeSocket);
  const bool proves = facts.munge_loads && facts.munge_runs;
  return {
      {"OpenSSL", facts.openssl.empty() ? "not found" : facts.openssl,
       facts.openssl.empty() ? "--rdzv-tls and rdzvd --tls can't be used (Debian: libssl3; "
                               "RHEL: openssl-libs)"
                             : ""},
      {"MUNGE", munge,
       proves ? "" : "nodes of one user need a secret to know each other (ddprun --make-secret)"}};
}

Findings about_network(const NodesFacts& facts) {
  Findings found;
  for (const auto& [port, taken] : facts.ports) {
    found.push_back(
        {fmt::format("port {}", port), taken.empty() ? "free" : taken,
         taken.empty() ? "" : "jobs of several nodes take it by default; give another port"});
  }
  const std::string& address = facts.host_address;
  const bool local = address.empty() || address.starts_with("127.") || address == "::1";
  found.push_back(
      {"host name",
       fmt::format("{}: {}", facts.host_name, address.empty() ? "no address is known" : address),
       local ? kUnreachable : ""});
  return found;
}

}  // namespace

std::vector<DoctorSection> examine(const MachineFacts& facts) {
  return {{"Programs", about_installation(facts.installation)},
          {"Python", about_python(facts.python)},
          {"System", about_system(facts.system)},
          {"GPUs", about_gpus(facts.gpus)},
          {"Containment", about_containment(facts.system)},
          {"Limits", about_limits(facts.limits, facts.system.cpus)},
          {"Folders", about_folders(facts.folders)},
          {"Stacks of hangs", about_debuggers(facts)},
          {"Several nodes", about_protection(facts.nodes)},
          {"Network", about_network(facts.nodes)}};
}

std::string doctor_text(const std::vector<DoctorSection>& sections) {
  std::string text;
  for (const auto& [title, findings] : sections) {
    text += title + "\n";
    for (const auto& [name, found, cost] : findings) {
      text += fmt::format("  {:<18} {}\n", name, found);
      if (!cost.empty()) text += fmt::format("  {:<18} -> {}\n", "", cost);
    }
  }
  return text;
}

}  // namespace ddprun::launcher
