#include "launcher/doctor/machine_facts.hpp"

#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "agent/progress/stack_methods.hpp"
#include "base/unique_handle.hpp"
#include "base/version.hpp"
#include "launcher/program/program.hpp"
#include "machine/processes/containment_level.hpp"
#include "machine/programs/helper_program.hpp"

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kAnswerLimit{10};
/// Where nodes meet, and the workers' store of several nodes: the defaults.
constexpr std::array kPorts = {29400, 29500};

/// Prints a line that begins with this word, then the version of Python, and 1 if it has PyTorch.
constexpr std::string_view kPythonAnswer = "doctor ";
constexpr const char* kPythonProgram =
    "import importlib.util as u, platform; "
    "print('doctor', platform.python_version(), int(u.find_spec('torch') is not None))";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The rest of the line that begins so; warnings of Python may stand before it.
std::string line_behind(const std::string& text, std::string_view begin) {
  const auto at = text.find(begin);
  return at == std::string::npos ? std::string() : first_line(text.substr(at + begin.size()));
}

/// What argv[0], a path, prints if it ends with 0 within the limit; else empty.
std::string answer_of(const std::vector<std::string>& argv, const machine::UserState& user,
                      std::chrono::nanoseconds limit) {
  boost::asio::io_context context(1);
  boost::asio::signal_set children(context, SIGCHLD);
  machine::HelperProgram program(context, user);
  std::optional<machine::HelperResult> result;
  const std::function<void()> await_child = [&] {
    children.async_wait([&](const boost::system::error_code& failed, int) {
      siginfo_t info{};
      if (failed) return;
      if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0)
        program.child_ended(info.si_pid);
      await_child();
    });
  };
  await_child();
  program.start({.argv = argv, .limit = limit},
                [&](machine::HelperResult ended) { result = std::move(ended); });
  while (!result) context.run_one();
  const bool good = result->in_time && result->exit && result->exit->success();
  return good ? result->output : std::string();
}

class Doctor {
 public:
  Doctor(const Environment& environment, const Probes& probes, const machine::UserState& user)
      : environment_(environment),
        probes_(probes),
        user_(user),
        path_(lookup(environment, "PATH").value_or("/usr/local/bin:/usr/bin:/bin")) {}

  [[nodiscard]] MachineFacts look() const {
    MachineFacts facts;
    facts.installation = installation();
    facts.python = python();
    facts.system = system();
    take_plan(facts);
    take_gpus(facts.gpus);
    facts.limits = limits();
    facts.folders = folders();
    facts.py_spy = on_path("py-spy");
    facts.gdb = on_path("gdb");
    facts.nodes = nodes();
    return facts;
  }

 private:
  [[nodiscard]] std::string on_path(const char* name) const {
    return agent::find_program(name, path_);
  }

  [[nodiscard]] std::string version_of(const std::string& file) const {
    return first_line(answer_of({file, "--version"}, user_, kAnswerLimit));
  }

  [[nodiscard]] InstallationFacts installation() const {
    InstallationFacts facts;
    const fs::path folder = probes_.executable_folder;
    facts.ddprun = {(folder / "ddprun").string(), first_line(version_text("ddprun"))};
    for (const fs::path& file :
         {folder.parent_path() / "libexec" / "ddprun" / "train", folder / "train"}) {
      if (probes_.files->look(file).kind != FileInfo::Kind::regular) continue;
      facts.train = {file.string(), version_of(file.string())};
      break;
    }
    const std::string first = on_path("ddprun");
    std::error_code failed;
    facts.first_is_own = !first.empty() && fs::equivalent(first, "/proc/self/exe", failed);
    facts.first_on_path.file = first;
    if (!first.empty() && !facts.first_is_own) facts.first_on_path.version = version_of(first);
    return facts;
  }

  /// As for a script.
  [[nodiscard]] PythonFacts python() const {
    PythonFacts facts;
    const ProgramRequest request{.program = "a.module",
                                 .arguments = {},
                                 .module = true,
                                 .executable_folder = probes_.executable_folder};
    const auto choice = resolve_program(request, environment_, *probes_.files);
    if (!choice) {
      facts.problem = "scripts can't be started: install Python, or set PYTHON_EXEC";
      return facts;
    }
    facts.file = choice->python;
    facts.other_environment = choice->other_environment;
    facts.is_wanted = !lookup(environment_, "PYTHON_EXEC").value_or("").empty();
    const std::string told = line_behind(
        answer_of({facts.file, "-c", kPythonProgram}, user_, kAnswerLimit), kPythonAnswer);
    const auto blank = told.find(' ');
    facts.version = told.substr(0, blank);
    facts.has_torch = blank != std::string::npos && told.substr(blank + 1) == "1";
    return facts;
  }

  [[nodiscard]] SystemFacts system() const {
    SystemFacts facts;
    utsname names{};
    if (uname(&names) == 0) {
      facts.release = names.release;
      facts.machine = names.machine;
    }
#ifdef _CS_GNU_LIBC_VERSION
    std::array<char, 64> libc{};
    if (confstr(_CS_GNU_LIBC_VERSION, libc.data(), libc.size()) > 0) facts.libc = libc.data();
#endif
    facts.usable_cpus = probes_.usable_cpus();
    facts.cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    return facts;
  }

  /// What ddprun would do with one worker.
  void take_plan(MachineFacts& facts) const {
    const auto options = parse_launch_options({"--nproc-per-node=1", "/bin/sh"}, {});
    auto plan = options ? make_plan(*options, environment_, probes_)
                        : LaunchResult<LaunchPlan>(options.error());
    if (!plan) {
      facts.system.problem = plan.error().message;
      facts.gpus.found = "unknown";
      return;
    }
    facts.system.containment = std::string(machine::to_string(plan->agent.containment));
    facts.gpus.found =
        plan->devices.chosen.empty()
            ? "none"
            : fmt::format("{} ({})", fmt::join(plan->devices.chosen, ","), plan->devices.source);
  }

  static bool loads(const char* library) {
    void* const handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (handle != nullptr) dlclose(handle);
    return handle != nullptr;
  }

  void take_gpus(GpuFacts& facts) const {
    constexpr std::string_view kDevice = "nvidia";
    for (const std::string& name : probes_.files->names_in("/dev")) {
      if (name.size() > kDevice.size() && name.starts_with(kDevice) &&
          name.find_first_not_of("0123456789", kDevice.size()) == std::string::npos)
        ++facts.device_files;
    }
    facts.driver = access("/proc/driver/nvidia/version", F_OK) == 0;
    if (!facts.driver && facts.device_files == 0) return take_other_devices(facts);
    facts.nvml_loads = loads("libnvidia-ml.so.1");
    facts.cuda_loads = loads("libcuda.so.1");
  }

  /// A job on CPUs, as that of take_plan, does not ask for them.
  void take_other_devices(GpuFacts& facts) const {
    const auto discovered = probes_.discover_accelerators("");
    const auto count = discovered.gpus.size();
    if (count == 0) return;
    facts.others = true;
    facts.found = fmt::format("{} {}{}, by {}", count, discovered.name, count == 1 ? "" : "s",
                              discovered.source);
  }

  static std::optional<std::uint64_t> limit_of(rlim_t value) {
    return value == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(value);
  }

  [[nodiscard]] LimitFacts limits() const {
    rlimit processes{RLIM_INFINITY, RLIM_INFINITY};
    rlimit core{RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(RLIMIT_NPROC, &processes);
    getrlimit(RLIMIT_CORE, &core);
    return {limit_of(user_.open_files.rlim_cur), limit_of(user_.open_files.rlim_max),
            limit_of(processes.rlim_cur), limit_of(core.rlim_cur)};
  }

  [[nodiscard]] FolderFacts folders() const {
    FolderFacts facts;
    struct statvfs memory {};
    if (statvfs("/dev/shm", &memory) == 0) {
      facts.memory_free = static_cast<std::uint64_t>(memory.f_bavail) * memory.f_frsize;
      facts.memory_writable = access("/dev/shm", W_OK) == 0;
    }
    const std::string temporary = lookup(environment_, "TMPDIR").value_or("");
    facts.temporary = temporary.empty() ? "/tmp" : temporary;
    facts.temporary_usable = probes_.files->look(facts.temporary).kind == FileInfo::Kind::folder &&
                             access(facts.temporary.c_str(), W_OK | X_OK) == 0;
    return facts;
  }

  static std::string why_taken(int port) {
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) return std::strerror(errno);
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    const bool bound =
        bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    return bound ? "" : std::strerror(errno);
  }

  [[nodiscard]] NodesFacts nodes() const {
    NodesFacts facts;
    for (const char* library : {"libssl.so.3", "libssl.so.1.1"}) {
      if (facts.openssl.empty() && loads(library)) facts.openssl = library;
    }
    facts.munge_loads = loads("libmunge.so.2");
    facts.munge_runs = access(kMungeSocket, F_OK) == 0;
    for (const int port : kPorts) facts.ports.push_back({port, why_taken(port)});
    facts.host_name = probes_.host_name;
    facts.host_address = probes_.resolve_host(facts.host_name, {}).value_or("");
    return facts;
  }

  const Environment& environment_;
  const Probes& probes_;
  const machine::UserState& user_;
  const std::string path_;
};

}  // namespace

MachineFacts look_at_machine(const Environment& environment, const Probes& probes,
                             const machine::UserState& user) {
  return Doctor(environment, probes, user).look();
}

}  // namespace ddprun::launcher
