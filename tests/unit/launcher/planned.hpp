// Plans for a machine in memory.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "launcher/plan/plan.hpp"
#include "rendezvous/munge/munge.hpp"
#include "tests/unit/launcher/fake_files.hpp"

namespace ddprun::launcher::test {

using Words = std::vector<std::string>;

/// A machine of which everything is known, and what was asked of it.
struct Machine {
  FakeFiles files;
  Environment environment = {{"PATH", "/usr/bin"}};
  int gpus = 0;
  machine::GpuDiscovery accelerators;  // of other vendors
  std::set<std::string> busy_gpus;     // entries that others use
  std::string gpu_source = "NVML";
  int cpus = 6;
  int usable_cpus = 5;
  bool one_node = false;  // else CPUs 0 and 1 are in node 0, CPUs 2 and 3 in node 1
  bool terminals = false;
  bool stderr_terminal = false;
  bool one_output = false;
  bool cgroup_possible = false;
  bool cgroup_delegated = false;
  std::string executable_folder;
  std::map<std::string, std::string> hosts = {{"node1", "10.0.0.1"}};  // by name
  Words addresses = {"127.0.0.1", "10.0.0.7"};                         // of its interfaces
  std::map<std::string, std::string> secrets;                          // by path, beside `files`
  boost::system::result<std::shared_ptr<const proto::Encrypter>, std::string> tls{
      boost::system::in_place_error, "OpenSSL cannot be used"};
  std::string tls_warning;  // of the files of certificates
  mutable rdzv::CertificateSettings certificates;
  mutable int discoveries = 0;
  mutable std::optional<std::string> asked_for;  // of other vendors
  mutable Words resolved;
  mutable std::vector<std::chrono::milliseconds> limits;

  Machine() { files.program("/usr/bin/python3").program("/usr/bin/true").text("t.py"); }
  explicit Machine(int gpu_count) : Machine() { gpus = gpu_count; }
  Machine& with(const std::string& name, const std::string& value) {
    environment[name] = value;
    return *this;
  }
  Machine& with_secret(const std::string& path, const std::string& secret) {
    files.text(path);
    secrets[path] = secret;
    return *this;
  }

  [[nodiscard]] Probes probes() const {
    Probes result;
    result.files = &files;
    result.gpus_likely = [this] { return gpus > 0; };
    result.discover_gpus = [this] {
      ++discoveries;
      machine::GpuDiscovery found;
      for (int i = 0; i < gpus; ++i)
        found.gpus.push_back(
            {i, "GPU-" + std::to_string(i), "0000:0" + std::to_string(i) + ":00.0"});
      found.source = gpus > 0 ? gpu_source : "";
      found.looked_for = "NVML";
      return found;
    };
    result.claim_gpus = [this](std::vector<machine::GpuCandidate> candidates, std::size_t wanted) {
      machine::GpuClaims claims;
      for (machine::GpuCandidate& gpu : candidates) {
        if (wanted != 0 && claims.claimed.size() == wanted) break;
        if (busy_gpus.contains(gpu.entry)) {
          claims.busy.push_back({gpu.entry, "pid 7 uses it"});
        } else {
          claims.claimed.push_back({std::move(gpu), UniqueFd()});
        }
      }
      if (claims.claimed.size() < wanted) claims.claimed.clear();
      return claims;
    };
    result.discover_accelerators = [this](const std::string& word) {
      asked_for = word;
      return accelerators;
    };
    result.cgroup_possible = [this] { return cgroup_possible; };
    result.cgroup_delegated = [this] { return cgroup_delegated; };
    result.logical_cpus = [this] { return cpus; };
    result.usable_cpus = [this] { return usable_cpus; };
    result.topology = [this](const Words& pci) {
      // The first GPU is beside the second node.
      machine::MachineTopology topology;
      for (int cpu = 0; cpu < 4; ++cpu) {
        const int node = one_node ? 0 : cpu / 2;
        topology.cpus.push_back(
            {.cpu = cpu, .node = node, .package = node, .core = cpu, .cache = node});
      }
      int node = 1;
      for (const auto& address : pci) topology.pci_nodes[address] = node--;
      return topology;
    };
    result.new_run_id = [] { return "fresh-id"; };
    result.resolve_host = [this](const std::string& host,
                                 std::chrono::milliseconds limit) -> std::optional<std::string> {
      resolved.push_back(host);
      limits.push_back(limit);
      const auto found = hosts.find(host);
      return found == hosts.end() ? std::nullopt : std::optional(found->second);
    };
    result.own_addresses = [this] { return addresses; };
    result.read_secret =
        [this](const std::string& path) -> boost::system::result<std::string, std::string> {
      const auto found = secrets.find(path);
      if (found != secrets.end()) return {boost::system::in_place_value, found->second};
      return {boost::system::in_place_error, "cannot read the secret file " + path};
    };
    result.read_password = result.read_secret;
    result.munge = [](const std::string& socket) {
      return std::shared_ptr<proto::Credentials>(rdzv::munge_credentials(socket));
    };
    result.open_tls = [this] { return tls; };
    result.open_certificates = [this](const rdzv::CertificateSettings& settings) {
      certificates = settings;
      using Opened = boost::system::result<rdzv::CertificateTls, std::string>;
      return tls ? Opened(boost::system::in_place_value, rdzv::CertificateTls{*tls, tls_warning})
                 : Opened(boost::system::in_place_error, tls.error());
    };
    result.boot_id = [] { return "boot-1"; };
    result.executable_folder = executable_folder;
    result.stdout_is_terminal = terminals;
    result.stderr_is_terminal = stderr_terminal;
    result.one_output = one_output;
    return result;
  }
};

inline LaunchResult<LaunchPlan> plan_of(Words arguments, const Machine& machine) {
  arguments.insert(arguments.end(), {"true", "--own"});
  const auto options = parse_launch_options(arguments, machine.environment);
  if (!options) FAIL(options.error().message);
  return make_plan(*options, machine.environment, machine.probes());
}

inline LaunchPlan planned(const Words& arguments, const Machine& machine = {}) {
  auto plan = plan_of(arguments, machine);
  if (!plan) FAIL(plan.error().message);
  return std::move(*plan);
}

inline std::string refused_plan(const Words& arguments, const Machine& machine = {}) {
  const auto plan = plan_of(arguments, machine);
  if (plan) FAIL("was accepted");
  CHECK(plan.error().exit_code == 2);
  return plan.error().message;
}

}  // namespace ddprun::launcher::test
