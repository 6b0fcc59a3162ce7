// "Hosts" for --hosts: a real sshd of our own on loopback, with keys of its own and one port for
// each kind of host. The machine's own sshd and ~/.ssh are never touched.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/launcher/many_nodes.hpp"
#include "tests/support/skip.hpp"

namespace ddprun::test {

/// Names: h1, h2, ... are hosts; banner1, banner2, ... are such with a login shell that prints;
/// `locked` wants another key, `unknown` has an unknown key of its own, `closed` has no sshd; `far`
/// is reached through a forwarder.
class SshHosts {
 public:
  SshHosts() {
    for (const char* program : {"/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/ssh-keygen"}) {
      if (access(program, X_OK) != 0)
        skip(std::string(program) + " is missing: scripts/install-deps --cluster installs it");
    }
    // Root's sshd needs it; Debian's package makes it when its service starts.
    if (geteuid() == 0) mkdir("/run/sshd", 0755);
    for (const char* key : {"host", "key", "other"})
      REQUIRE(
          run({"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path(key)}).status ==
          0);
    std::filesystem::copy_file(path("key.pub"), path("authorized"));
    start();
    write_client_config();
    REQUIRE(eventually([this] { return test::run(ssh("h1", "true")).status == 0; }));
  }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] std::vector<std::string> ssh(const std::string& host,
                                             const std::string& command) const {
    return {"/usr/bin/ssh", "-F", path("client"), "-o", "BatchMode=yes", host, command};
  }

  /// ddprun on these hosts, with meeting_worker as its program.
  [[nodiscard]] std::vector<std::string> command(std::vector<std::string> options,
                                                 const std::vector<std::string>& actions = {},
                                                 const std::string& worker = "",
                                                 const std::string& ssh_options = "") const {
    std::vector<std::string> words{program("ddprun"),
                                   "--ssh=/usr/bin/ssh -F " + path("client") + ssh_options,
                                   "--pass-env=TEST_MARK", "--grace-period=2"};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(worker.empty() ? helper("meeting_worker") : worker);
    words.insert(words.end(), actions.begin(), actions.end());
    return words;
  }
  Child& start(const std::vector<std::string>& options,
               const std::vector<std::string>& actions = {}) {
    return launchers_.emplace_back(command(options, actions), settings());
  }
  ChildResult run_job(const std::vector<std::string>& options,
                      const std::vector<std::string>& actions = {}) {
    ChildResult result = test::run(command(options, actions), settings());
    INFO(result.out + result.err);
    CHECK(nothing_left());
    return result;
  }
  ChildOptions settings() {
    ChildOptions settings = job.settings();
    settings.environment.emplace_back("DDPRUN_SSH", "");
    return settings;
  }
  [[nodiscard]] pid_t sshd() const { return sshd_->pid(); }
  /// For `far`; returns the forwarder, which lives as long as this.
  Child& start_forwarder() {
    forwarder_.emplace(std::vector<std::string>{helper("forwarder"), std::to_string(port_)});
    REQUIRE(forwarder_->wait_for_output("\n"));
    const auto port = forwarder_->out().substr(0, forwarder_->out().find('\n'));
    std::ofstream(path("far")) << "Host far\n Port " << port
                               << "\n HostKeyAlias [127.0.0.1]:" << port_ << "\n";
    return *forwarder_;
  }
  /// No process of the job and its launcher is left, on any host.
  bool nothing_left() {
    return eventually([this] { return processes_with(job.mark_entry()).empty(); },
                      std::chrono::seconds(30));
  }

  /// Workers run on until this file exists.
  [[nodiscard]] std::string gate() const { return path("gate"); }
  void open_gate() const { std::ofstream(folder_ / "gate") << "x"; }

  Job job;

 private:
  void start() {
    for (int attempt = 0;; ++attempt) {
      port_ = free_port();
      banner_port_ = free_port();
      std::ofstream config(folder_ / "sshd_config");
      config << "Port " << port_ << "\nPort " << banner_port_ << "\nListenAddress 127.0.0.1\n"
             << "HostKey " << path("host") << "\nAuthorizedKeysFile " << path("authorized")
             << "\nUsePAM no\nStrictModes no\nPidFile none\nMaxStartups 100\n"
             << "PasswordAuthentication no\n"
             << "Match LocalPort " << banner_port_
             << "\n ForceCommand echo 'Welcome to this host'; "
             << "echo on stderr, too >&2; printf 'no newline'; eval \"$SSH_ORIGINAL_COMMAND\"\n";
      config.close();
      ChildOptions options;
      options.leave_stdin = true;
      options.limit = std::chrono::hours(1);
      sshd_.emplace(
          std::vector<std::string>{"/usr/sbin/sshd", "-f", path("sshd_config"), "-D", "-e"},
          options);
      const std::string there = " port " + std::to_string(banner_port_);
      if (sshd_->wait_for([&](const auto&, const auto& err) {
            return err.find("Server listening") != std::string::npos &&
                   err.find(there) != std::string::npos;
          }))
        return;
      INFO(sshd_->err());
      REQUIRE(attempt < 3);  // another program had taken a port
    }
  }

  void write_client_config() {
    std::ifstream key(folder_ / "host.pub");
    std::string type;
    std::string text;
    key >> type >> text;
    std::ofstream known(folder_ / "known");
    for (const auto port : {port_, banner_port_})
      known << "[127.0.0.1]:" << port << " " << type << " " << text << "\n";
    std::ofstream config(folder_ / "client");
    config << "Include " << path("far") << "\nHost closed\n Port 1\n ConnectTimeout 5\n"
           << "Host locked\n IdentityFile " << path("other") << "\n"
           << "Host unknown\n UserKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n"
           << "Host banner*\n Port " << banner_port_ << "\n"
           << "Host !locked *\n IdentityFile " << path("key") << "\n"
           << "Host *\n HostName 127.0.0.1\n Port " << port_
           << "\n IdentitiesOnly yes\n IdentityAgent none\n UserKnownHostsFile " << path("known")
           << "\n GlobalKnownHostsFile /dev/null\n";
  }

  TempDir folder_;
  std::uint16_t port_ = 0;
  std::uint16_t banner_port_ = 0;
  std::optional<Child> sshd_;
  std::optional<Child> forwarder_;
  std::deque<Child> launchers_;
};

/// What a job on two hosts with one worker each has printed shows that both run.
inline bool both_run(const std::string& out, const std::string&) {
  return out.find("rank=0/2") != std::string::npos && out.find("rank=1/2") != std::string::npos;
}

inline std::string name_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

/// The job's processes with this name.
inline std::vector<pid_t> of_job(const SshHosts& hosts, const std::string& name) {
  std::vector<pid_t> found;
  for (const pid_t pid : processes_with(hosts.job.mark_entry())) {
    if (name_of(pid) == name) found.push_back(pid);
  }
  return found;
}

/// The ddprun of one host, and what sshd runs it in.
struct NodeProcesses {
  pid_t agent = 0;
  pid_t warden = 0;
  pid_t first = 0;
  pid_t session = 0;
};

inline std::vector<NodeProcesses> nodes_of(const SshHosts& hosts) {
  std::vector<NodeProcesses> nodes;
  for (const pid_t worker : of_job(hosts, "meeting_worker")) {
    NodeProcesses node;
    node.agent = parent_of(worker);
    node.warden = parent_of(node.agent);
    node.first = parent_of(node.warden);
    node.session = parent_of(node.first);
    REQUIRE(name_of(node.agent) == "ddp-agent");
    REQUIRE(name_of(node.session).starts_with("sshd"));
    nodes.push_back(node);
  }
  return nodes;
}

inline NodeProcesses node_of_rank(const SshHosts& hosts, int rank) {
  const auto all = processes_with("RANK=" + std::to_string(rank));
  for (const NodeProcesses& node : nodes_of(hosts)) {
    if (std::any_of(all.begin(), all.end(),
                    [&node](pid_t pid) { return parent_of(pid) == node.agent; }))
      return node;
  }
  FAIL("there is no worker of rank " << rank);
  return {};
}

/// Or a zombie, which the stopped session of sshd has not reaped.
inline bool is_gone(pid_t pid) {
  const auto runs = [pid] {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    return std::getline(file, text) && text.find(") Z ") == std::string::npos;
  };
  return eventually([&runs] { return !runs(); }, std::chrono::seconds(30));
}

/// On a busy machine one host waits for another, which is told.
inline std::string without_waits(const std::string& err) {
  std::istringstream lines(err);
  std::string others;
  for (std::string line; std::getline(lines, line);)
    if (line.find(" nodes have joined (") == std::string::npos) others += line + "\n";
  return others;
}

}  // namespace ddprun::test
