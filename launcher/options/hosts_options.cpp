#include "launcher/options/hosts_options.hpp"

#include <array>

#include "launcher/options/option_rows.hpp"

namespace ddprun::launcher {
namespace {

struct Excluded {
  RowRef row;
  const char* why;
};

/// What the launcher decides itself.
constexpr const char* kRanks = "the order of the hosts gives their ranks";
constexpr const char* kMeets = "the hosts meet through ssh";
constexpr const char* kSshEncrypts = "ssh encrypts the connections between the hosts";
constexpr std::array<Excluded, 13> kExcluded{{
    {"node-rank", kRanks},
    {"standalone", "a standalone job runs on this machine only"},
    {"rdzv-endpoint", kMeets},
    {"rdzv-backend", kMeets},
    {"master-addr", "the first host is where the workers' store is"},
    {"local-addr", "each host has an address of its own"},
    {"rdzv-auth", "the job has a secret of its own"},
    {"rdzv-tls", kSshEncrypts},
    {"rdzv-tls-ca", kSshEncrypts},
    {"rdzv-tls-cert", kSshEncrypts},
    {"rdzv-tls-key", kSshEncrypts},
    {"make-secret", "the job has a secret of its own"},
    {"chaos", "faults are for the ddprun of one node"},
}};

}  // namespace

LaunchResult<void> take_hosts(const ParsedCommandLine& parsed, LaunchOptions& options) {
  HostsOptions& hosts = options.hosts;
  hosts.list = parsed.text("hosts");
  hosts.file = parsed.text("hostfile");
  hosts.ssh = parsed.text("ssh");
  hosts.ssh_spelling = parsed.given("ssh") ? parsed.spelling("ssh") : "--ssh";
  hosts.remote_path = parsed.text("remote-path");
  hosts.pass_env = parsed.text("pass-env");
  const bool is_list = parsed.given("hosts");
  const bool is_file = parsed.given("hostfile");
  if (is_list && is_file)
    return usage_error("--hosts and --hostfile exclude each other; leave one out");
  if (!is_list && !is_file) {
    for (const RowRef row : {RowRef("remote-path"), RowRef("pass-env")}) {
      if (parsed.given(row))
        options.warnings.push_back(parsed.spelling(row) +
                                   " has no effect without --hosts or --hostfile");
    }
    return {};
  }
  hosts.spelling = parsed.spelling(is_list ? RowRef("hosts") : RowRef("hostfile"));
  if (is_file && hosts.file.empty()) return usage_error("--hostfile: expected a file");
  for (const auto& [row, why] : kExcluded) {
    if (!parsed.given(row)) continue;
    return usage_error(parsed.spelling(row) + " and --" + (is_list ? "hosts" : "hostfile") +
                       " exclude each other: " + why + "; leave one out");
  }
  if (parsed.given("stdin"))
    options.warnings.push_back(parsed.spelling("stdin") +
                               " has no effect: the hosts' workers have no standard input");
  return {};
}

}  // namespace ddprun::launcher
