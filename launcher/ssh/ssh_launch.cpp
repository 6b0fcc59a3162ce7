#include "launcher/ssh/ssh_launch.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "base/trimmed.hpp"
#include "launcher/options/rdzv_conf.hpp"
#include "proto/environment_names.hpp"

namespace ddprun::launcher {

namespace {

/// A port is needed for the text only.
constexpr std::uint16_t kExamplePort = 29400;

LaunchResult<std::vector<SshHost>> hosts_of(const HostsOptions& hosts, const SshFacts& facts) {
  if (hosts.file.empty()) return hosts_in_list(hosts.list, hosts.spelling);
  const auto text = facts.read_file(hosts.file);
  if (!text) return usage_error(fmt::format("{}: {}", hosts.spelling, text.error()));
  return hosts_in_file(*text, hosts.spelling);
}

LaunchResult<void> take_numbers(const LaunchOptions& options, SshLaunch& launch) {
  const auto all = static_cast<int>(launch.hosts.size());
  launch.plan.min_nodes = launch.plan.max_nodes = all;
  if (!options.nodes.count.given) return {};
  if (options.nodes.count.max > all) {
    return usage_error(fmt::format("{}: {} names {} host{}; name more, or leave --nnodes out",
                                   options.nodes.count.spelling, options.hosts.spelling, all,
                                   all == 1 ? "" : "s"));
  }
  launch.plan.min_nodes = options.nodes.count.min;
  launch.plan.max_nodes = options.nodes.count.max;
  return {};
}

/// Values may be secrets, which a screen need not show.
std::vector<std::string> names_of(const std::vector<std::string>& environment) {
  std::vector<std::string> names;
  for (const std::string& entry : environment) names.push_back(entry.substr(0, entry.find('=')));
  return names;
}

}  // namespace

LaunchResult<SshLaunch> make_ssh_launch(const LaunchOptions& options,
                                        const Environment& environment, const SshFacts& facts) {
  if (!options.report.event_log.empty())
    return usage_error(
        "--event-log is not for --hosts: all hosts would write one file; there `ddpctl events "
        "--follow --json` gives the same");
  SshLaunch launch;
  launch.warnings = options.warnings;
  launch.log_level = options.log_level;
  auto hosts = hosts_of(options.hosts, facts);
  if (!hosts) return hosts.error();
  launch.hosts = std::move(*hosts);
  if (const auto taken = take_numbers(options, launch); !taken) return taken.error();

  auto ssh = words_of_command(options.hosts.ssh, options.hosts.ssh_spelling);
  if (!ssh) return ssh.error();
  launch.command = {std::move(*ssh), options.hosts.remote_path, facts.own_path, options.hosts.ssh};
  const auto times = rdzv_times(options.rendezvous.conf);
  if (!times) return times.error();
  launch.lease = std::chrono::ceil<std::chrono::milliseconds>(times->lease);
  launch.warnings.insert(launch.warnings.end(), times->warnings.begin(), times->warnings.end());
  launch.stop = options.failures.stop;
  launch.report_file = options.report.file;
  launch.error_file = lookup(environment, proto::env::kErrorFile).value_or("");

  auto passed = passed_environment(environment, options.hosts.pass_env);
  if (!passed) return passed.error();
  NodePlan& plan = launch.plan;
  plan.environment = std::move(*passed);
  plan.command = facts.command;
  plan.folder = facts.folder;
  plan.stop = options.failures.stop;
  plan.run_id = options.rendezvous.run_id.value_or(facts.new_run_id);
  plan.secret = facts.secret;
  plan.mark = "end-" + facts.random;
  launch.socket_base = fmt::format("{}/{}{}-", kSocketFolder, kSocketPrefix, facts.random);
  plan.wants_error_file = !launch.error_file.empty();
  plan.stdout_is_terminal = facts.stdout_is_terminal;
  plan.stderr_is_terminal = facts.stderr_is_terminal;
  if (encode(plan).size() > kPlanBytesMax)
    return usage_error(fmt::format(
        "the environment and the command line have more than {} MiB; pass less to the hosts",
        kPlanBytesMax >> 20U));
  return launch;
}

NodePlan plan_for(const SshLaunch& launch, std::size_t host) {
  NodePlan plan = launch.plan;
  plan.host = launch.hosts[host].name;
  plan.rank = static_cast<int>(host);
  plan.slots = launch.hosts[host].slots.value_or(0);
  plan.socket = fmt::format("{}{}", launch.socket_base, host);
  return plan;
}

std::string ssh_dry_run_text(const SshLaunch& launch) {
  const NodePlan& plan = launch.plan;
  std::string nodes = fmt::format("{}", plan.max_nodes);
  if (plan.min_nodes < plan.max_nodes)
    nodes = fmt::format("{} to {}", plan.min_nodes, plan.max_nodes);
  std::string text =
      fmt::format("hosts:        {}, in the order of their ranks\n", launch.hosts.size());
  for (const SshHost& host : launch.hosts) {
    text += fmt::format("              {}{}\n", host.name,
                        host.slots ? fmt::format(", {} workers", *host.slots) : "");
  }
  text += fmt::format("nodes:        {}\n", nodes);
  text += fmt::format("folder:       {}\n", plan.folder.empty() ? "(deleted)" : plan.folder);
  std::string command;
  for (const std::string& word :
       ssh_arguments(launch.command, launch.hosts.front().name, "SOCKET", kExamplePort))
    command += (command.empty() ? "" : " ") + word;
  text += fmt::format("command:      {}\n", command);
  std::string names;
  for (const std::string& name : names_of(plan.environment))
    names += (names.empty() ? "" : " ") + name;
  return text + fmt::format("environment:  {}\n", names);
}

std::string ssh_dry_run_json(const SshLaunch& launch) {
  nlohmann::ordered_json json;
  auto hosts = nlohmann::ordered_json::array();
  for (const SshHost& host : launch.hosts) {
    nlohmann::ordered_json one{{"name", host.name}};
    if (host.slots) one["workers"] = *host.slots;
    hosts.push_back(std::move(one));
  }
  json["hosts"] = std::move(hosts);
  json["min_nodes"] = launch.plan.min_nodes;
  json["max_nodes"] = launch.plan.max_nodes;
  json["folder"] = launch.plan.folder;
  json["command"] =
      ssh_arguments(launch.command, launch.hosts.front().name, "SOCKET", kExamplePort);
  json["environment"] = names_of(launch.plan.environment);
  return json_text(json, 2) + "\n";
}

LaunchOptions options_on_node(LaunchOptions options, const NodePlan& plan,
                              const std::string& addr) {
  options.hosts = {};
  options.request = Request::run;
  options.warnings.clear();  // the launcher has printed them
  options.rendezvous.run_id = plan.run_id;
  options.nodes.count.min = plan.min_nodes;
  options.nodes.count.max = plan.max_nodes;
  options.nodes.count.given = true;
  options.nodes.count.spelling = fmt::format("--nnodes={}", plan.max_nodes);
  // More hosts than nodes: these are spares.
  if (plan.rank < plan.max_nodes) options.nodes.rank = plan.rank;
  options.rendezvous.backend = "c10d";
  // Only a name, for people: the socket leads there.
  const auto launcher = parse_endpoint(plan.launcher);
  options.rendezvous.endpoint = launcher ? *launcher : Endpoint("launcher", std::nullopt);
  if (!options.rendezvous.endpoint->port) options.rendezvous.endpoint->port = 0;
  options.output.standard_input = StdinMode::none;
  if (plan.slots > 0 && !options.workers.processes.given && !options.devices.gpus.given)
    options.workers.processes.number = plan.slots;
  SshNode node;
  node.name = plan.host;
  node.socket = plan.socket;
  node.secret = plan.secret;
  node.addr = addr;
  node.wants_error_file = plan.wants_error_file;
  node.stdout_is_terminal = plan.stdout_is_terminal;
  node.stderr_is_terminal = plan.stderr_is_terminal;
  options.ssh_node = std::move(node);
  return options;
}

namespace {

// Where programs and libraries are, what the libraries of training read, and what ddprun reads.
// Not what belongs to a machine or a session: HOME, HOSTNAME, TMPDIR, XDG_*, SSH_*.
constexpr std::array<std::string_view, 41> kPassed = {
    "PATH",          "LD_LIBRARY_PATH",
    "LD_PRELOAD",    "LIBRARY_PATH",
    "PYTHON*",       "VIRTUAL_ENV",
    "CONDA_*",       "PYENV_*",
    "CUDA_*",        "NVIDIA_*",
    "NCCL_*",        "CUDNN_*",
    "CUBLAS_*",      "OMP_*",
    "MKL_*",         "OPENBLAS_*",
    "NUMEXPR_*",     "KMP_*",
    "GLOO_*",        "UCX_*",
    "FI_*",          "IBV_*",
    "OMPI_MCA_*",    "TORCH*",
    "PYTORCH_*",     "TRITON_*",
    "TP_*",          "HF_*",
    "HUGGINGFACE_*", "TRANSFORMERS_*",
    "DEEPSPEED_*",   "DS_*",
    "WANDB_*",       "MLFLOW_*",
    "TQDM_*",        "LANG",
    "LC_*",          "TERM",
    "NO_COLOR",      "PET_*",
    "DDPRUN_*",
};

/// Never passed on: variables of the launcher itself, or of a job around it.
constexpr std::array<std::string_view, 8> kKept = {
    "DDPRUN_SSH",   "DDPRUN_SECRET_FILE",   "DDPRUN_SOCKET",         "DDPRUN_ROUND",
    "DDPRUN_EPOCH", "DDPRUN_PROGRESS_FILE", "DDPRUN_MAX_WORLD_SIZE", "TORCHELASTIC_ERROR_FILE",
};

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool is_name(std::string_view text) {
  if (text.empty() || (text.front() >= '0' && text.front() <= '9')) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  });
}

}  // namespace

std::span<const std::string_view> passed_by_default() { return kPassed; }

LaunchResult<std::vector<std::string>> passed_environment(const Environment& environment,
                                                          std::string_view pass_env) {
  std::map<std::string, std::string> passed;
  const auto take = [&](std::string_view pattern) {
    for (const auto& [name, value] : environment) {
      if (matches(pattern, name)) passed.emplace(name, value);
    }
  };
  for (const std::string_view pattern : kPassed) take(pattern);
  for (const std::string_view name : kKept) passed.erase(std::string(name));
  while (!pass_env.empty()) {
    const auto comma = std::min(pass_env.find(','), pass_env.size());
    const std::string_view word = trimmed(pass_env.substr(0, comma));
    pass_env.remove_prefix(std::min(comma + 1, pass_env.size()));
    if (word.empty()) continue;
    const auto equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    if (!is_name(name.ends_with('*') ? name.substr(0, name.size() - 1) : name) ||
        (name.ends_with('*') && equals != std::string_view::npos))
      return usage_error(fmt::format(
          "--pass-env: {}: expected NAME, PREFIX* or NAME=VALUE with commas between", word));
    if (equals == std::string_view::npos) {
      take(name);
    } else {
      passed.insert_or_assign(std::string(name), std::string(word.substr(equals + 1)));
    }
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : passed) entries.push_back(fmt::format("{}={}", name, value));
  return entries;
}

}  // namespace ddprun::launcher
