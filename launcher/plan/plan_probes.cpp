// The real machine behind make_plan.
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>

#include "base/byte_output.hpp"
#include "base/secret_file.hpp"
#include "base/small_file.hpp"
#include "base/time_stamp.hpp"
#include "base/trimmed.hpp"
#include "launcher/plan/host_lookup.hpp"
#include "launcher/plan/plan.hpp"
#include "machine/cgroups/job_cgroup.hpp"
#include "machine/cpus/usable_cpus.hpp"
#include "machine/devices/devices.hpp"
#include "rendezvous/munge/munge.hpp"

namespace ddprun::launcher {
namespace {

/// Date and time, so that folders that are named by it are in their order, and 32 random bits.
std::string fresh_run_id() {
  std::array<unsigned char, 4> bytes{};
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (count > 0) filled += static_cast<std::size_t>(count);
  }
  std::string text = time_stamp(std::chrono::system_clock::now()) + "_";
  for (const unsigned char byte : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 0x0fU];
  }
  return text;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

std::string folder_of_this_program() {
  std::error_code failed;
  const auto file = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? std::string() : file.parent_path().string();
}

}  // namespace

Probes machine_probes() {
  static const RealFileProbe files;
  Probes probes;
  probes.files = &files;
  probes.gpus_likely = [] { return machine::gpus_likely(); };
  probes.discover_gpus = [] { return machine::discover_gpus(); };
  probes.discover_accelerators = [](const std::string& word) {
    return machine::discover_accelerators(word);
  };
  probes.claim_gpus = [](std::vector<machine::GpuCandidate> candidates, std::size_t wanted) {
    return machine::claim_free_gpus(std::move(candidates), wanted, machine::look_by_nvml());
  };
  // As Python's os.cpu_count(), which torchrun asks: affinity and cgroup quotas don't count.
  probes.logical_cpus = [] {
    return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  };
  probes.usable_cpus = [] {
    const auto allowed = machine::allowed_cpus();
    return machine::usable_cpus(allowed ? *allowed : machine::CpuSet{},
                                machine::cgroup_cpu_quota());
  };
  probes.topology = [](const std::vector<std::string>& pci_addresses) {
    const auto allowed = machine::allowed_cpus();
    return machine::read_topology(allowed ? *allowed : machine::CpuSet{}, pci_addresses);
  };
  probes.cgroup_possible = [] { return machine::JobCgroup::possible(); };
  probes.cgroup_delegated = [] { return machine::JobCgroup::delegated(); };
  probes.new_run_id = fresh_run_id;
  probes.resolve_host = look_up_host;
  probes.own_addresses = rdzv::interface_addresses;
  probes.read_secret = read_secret_file;
  probes.read_password = read_password_file;
  probes.munge = [](std::string socket) { return rdzv::munge_credentials(std::move(socket)); };
  probes.open_tls = [] { return rdzv::open_tls(); };
  probes.open_certificates = [](const rdzv::CertificateSettings& settings) {
    return rdzv::open_tls(settings);
  };
  probes.boot_id = [] {
    const auto id = read_small_file("/proc/sys/kernel/random/boot_id");
    return id ? std::string(trimmed(*id)) : std::string();
  };
  probes.executable_folder = folder_of_this_program();
  probes.host_name = host_name();
  probes.stdout_is_terminal = ::isatty(STDOUT_FILENO) == 1;
  probes.stderr_is_terminal = ::isatty(STDERR_FILENO) == 1;
  probes.one_output = same_output(STDOUT_FILENO, STDERR_FILENO);
  return probes;
}

}  // namespace ddprun::launcher
