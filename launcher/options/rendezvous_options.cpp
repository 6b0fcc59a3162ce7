#include "launcher/options/rendezvous_options.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/trimmed.hpp"
#include "launcher/options/option_rows.hpp"
#include "launcher/options/option_value.hpp"

namespace ddprun::launcher {

namespace {

constexpr long long kPortMax = 65'535;
constexpr long long kNodesMax = 100'000;
constexpr long long kNodeChangesMax = 1'000'000'000;
constexpr std::size_t kEndpointsMax = 16;

/// What to type instead of Paddle's list of nodes; it is empty or has one.
LaunchResult<void> check_ips(const ParsedCommandLine& parsed) {
  const std::string ips = parsed.text("ips");
  const auto nodes = 1 + std::count(ips.begin(), ips.end(), ',');
  if (nodes == 1) return {};
  return usage_error(parsed.spelling("ips") + ": type --nnodes=" + std::to_string(nodes) +
                     " --rdzv-backend=c10d --rdzv-endpoint=" + ips.substr(0, ips.find(',')) +
                     " instead, the same on each node");
}

LaunchResult<void> take_nodes(const ParsedCommandLine& parsed, LaunchOptions& options) {
  const std::string text = parsed.text("nnodes");
  const auto colon = text.find(':');
  const auto least = parse_integer(text.substr(0, colon));
  const auto most = colon == std::string::npos ? least : parse_integer(text.substr(colon + 1));
  const std::string& spelling = parsed.spelling("nnodes");
  if (!least || !most || *least < 1 || *most < *least) {
    return usage_error(spelling +
                       ": expected N or MIN:MAX, 1 or more, as in --nnodes=2 or --nnodes=2:4");
  }
  if (*most > kNodesMax)
    return usage_error(spelling + ": at most " + std::to_string(kNodesMax) + " is possible");
  if (const auto checked = check_ips(parsed); !checked) return checked.error();
  options.nodes.count = {static_cast<int>(*least), static_cast<int>(*most), spelling,
                         parsed.given("nnodes")};

  const auto rank = parsed.integer_up_to("node-rank", kNodesMax);
  if (!rank) return rank.error();
  if (*rank != 0 && *most == 1) {
    return usage_error(parsed.spelling("node-rank") +
                       ": a job of one node has only node rank 0; leave it out, or give "
                       "--nnodes=N");
  }
  if (parsed.given("node-rank")) options.nodes.rank = *rank;
  options.nodes.rank_spelling = parsed.spelling("node-rank");

  const auto changes = parsed.integer_up_to("max-node-changes", kNodeChangesMax);
  if (!changes) return changes.error();
  if (parsed.given("max-node-changes")) options.nodes.max_changes = *changes;
  options.nodes.grow_delay = parsed.seconds("grow-delay");
  return {};
}

agent::StoreUsers store_users(const ParsedCommandLine& parsed) {
  agent::StoreUsers users;
  const std::string text = parsed.text("store-allow-uid");
  users.any = text == "any";
  if (users.any || text.empty()) return users;
  const auto uids = parse_indexes(text).value_or(std::vector<int>{});
  users.uids.assign(uids.begin(), uids.end());
  return users;
}

LaunchResult<void> take_ports(const ParsedCommandLine& parsed, LaunchOptions& options) {
  if (parsed.given("master-port")) {
    const auto port = parsed.integer_up_to("master-port", kPortMax);
    if (!port) return port.error();
    options.store.master_port = static_cast<std::uint16_t>(*port);
  }
  if (!parsed.given("port-range")) return {};
  const std::string text = parsed.text("port-range");
  const auto colon = text.find(':');
  const auto first = parse_integer(text.substr(0, colon));
  const auto last =
      colon == std::string::npos ? std::nullopt : parse_integer(text.substr(colon + 1));
  if (!first || !last || *first < 1 || *last < *first || *last > kPortMax) {
    return usage_error(parsed.spelling("port-range") +
                       ": expected FIRST:LAST, 1 to 65535, as in --port-range=20000:20100");
  }
  options.store.ports = {static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
  return {};
}

/// One, or several that are divided by commas.
LaunchResult<void> take_endpoints(const ParsedCommandLine& parsed, const std::string& text,
                                  LaunchOptions& options) {
  std::vector<Endpoint> endpoints;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    const bool is_blank = endpoints.empty() && end == text.size() && trimmed(one).empty();
    auto taken = parse_endpoint(is_blank ? "localhost" : one);
    if (!taken) {
      return usage_error(parsed.spelling("rdzv-endpoint") + ": " + taken.error() +
                         "; expected HOST, HOST:PORT or [IPV6]:PORT, or several of these with "
                         "commas between them");
    }
    if (std::find(endpoints.begin(), endpoints.end(), *taken) == endpoints.end())
      endpoints.push_back(std::move(*taken));
    begin = end + 1;
  }
  if (endpoints.size() > kEndpointsMax)
    return usage_error(parsed.spelling("rdzv-endpoint") + ": expected at most " +
                       std::to_string(kEndpointsMax) + " endpoints");
  if (endpoints.size() > 1 && options.rendezvous.backend == "static")
    return usage_error(
        parsed.spelling("rdzv-endpoint") +
        ": several endpoints are those of several rdzvd; add --rdzv-backend=c10d (or etcd, "
        "if they are members of etcd)");
  options.rendezvous.endpoint = std::move(endpoints.front());
  options.rendezvous.more_endpoints.assign(std::make_move_iterator(endpoints.begin() + 1),
                                           std::make_move_iterator(endpoints.end()));
  return {};
}

LaunchResult<void> take_meeting_point(const ParsedCommandLine& parsed, LaunchOptions& options) {
  options.nodes.standalone = parsed.flag("standalone");
  options.store.master_addr = parsed.text("master-addr");
  options.nodes.local_addr = parsed.text("local-addr");
  // torchrun's own default is the text `none`, and scripts pass it on.
  const std::string id = parsed.text("rdzv-id");
  if (!id.empty() && id != "none") options.rendezvous.run_id = id;

  options.rendezvous.backend = parsed.text("rdzv-backend");
  options.rendezvous.backend_given = parsed.given("rdzv-backend");
  const std::vector<std::string> backends{"static", "c10d", "etcd", "etcd-v2"};
  if (std::find(backends.begin(), backends.end(), options.rendezvous.backend) == backends.end()) {
    return usage_error(parsed.spelling("rdzv-backend") + ": expected " + enumerate(backends));
  }
  if (const std::string endpoint = parsed.text("rdzv-endpoint"); !endpoint.empty()) {
    if (const auto taken = take_endpoints(parsed, endpoint, options); !taken) return taken.error();
  }
  auto conf = parse_rdzv_conf(parsed.text("rdzv-conf"));
  if (!conf) return conf.error();
  options.warnings.insert(options.warnings.end(), conf->warnings.begin(), conf->warnings.end());
  options.rendezvous.conf = std::move(*conf);
  return {};
}

/// With certificates, each node needs the authorities; a certificate of its own only where one is
/// asked for.
LaunchResult<void> take_tls(const ParsedCommandLine& parsed, RendezvousOptions& rendezvous) {
  rendezvous.tls_ca = parsed.text("rdzv-tls-ca");
  rendezvous.tls_cert = parsed.text("rdzv-tls-cert");
  rendezvous.tls_key = parsed.text("rdzv-tls-key");
  rendezvous.tls = parsed.flag("rdzv-tls") || parsed.given("rdzv-tls-ca");
  constexpr std::array<TextRef, 3> kFiles{"rdzv-tls-ca", "rdzv-tls-cert", "rdzv-tls-key"};
  for (const TextRef row : kFiles) {
    if (parsed.given(row) && parsed.text(row).empty())
      return usage_error(parsed.spelling(row) + ": expected a file");
  }
  const bool has_certificate = !rendezvous.tls_cert.empty();
  const bool has_key = !rendezvous.tls_key.empty();
  if (has_certificate && !has_key)
    return usage_error(parsed.spelling("rdzv-tls-cert") +
                       ": the key of that certificate is missing; add --rdzv-tls-key=FILE");
  if (has_key && !has_certificate)
    return usage_error(parsed.spelling("rdzv-tls-key") +
                       ": the certificate of that key is missing; add --rdzv-tls-cert=FILE");
  if (has_certificate && rendezvous.tls_ca.empty())
    return usage_error(parsed.spelling("rdzv-tls-cert") +
                       ": the authorities that this node trusts are missing; add "
                       "--rdzv-tls-ca=FILE");
  return {};
}

}  // namespace

LaunchResult<void> take_rendezvous(const ParsedCommandLine& parsed, LaunchOptions& options) {
  if (const auto taken = take_nodes(parsed, options); !taken) return taken.error();
  if (const auto taken = take_ports(parsed, options); !taken) return taken.error();
  if (const auto taken = take_meeting_point(parsed, options); !taken) return taken.error();
  options.rendezvous.auth = choice<RdzvAuth>(parsed, "rdzv-auth");
  if (const auto taken = take_tls(parsed, options.rendezvous); !taken) return taken.error();
  options.rendezvous.secret_file = parsed.text("rdzv-secret-file");
  if (parsed.given("rdzv-secret-file") && options.rendezvous.secret_file.empty())
    return usage_error(parsed.spelling("rdzv-secret-file") + ": expected a file");
  options.store.host = choice<WorkerStore>(parsed, "worker-store");
  options.store.users = store_users(parsed);
  return {};
}

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
