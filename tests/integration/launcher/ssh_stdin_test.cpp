// What a launcher's own stdin may be, and what goes to its hosts by theirs and by no other way.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/ssh/node_messages.hpp"
#include "tests/integration/launcher/ssh_hosts.hpp"

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// A program for --remote-path: it writes its arguments and its stdin to files in `folder`, and is
/// ddprun.
std::string recording_ddprun(const std::filesystem::path& folder) {
  const std::string path = (folder / "ddprun").string();
  std::ofstream(path) << "#!/bin/sh\nbase=" << folder.string() << "/$$\n"
                      << "printf '%s\\n' \"$@\" > $base.arguments\nmkfifo $base.pipe\nexec 3<&0\n"
                      << "tee $base.stdin <&3 > $base.pipe 2> /dev/null &\n"
                      << "exec " << program("ddprun") << " \"$@\" 3<&- < $base.pipe\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

std::string content(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

/// The plans that all hosts were given.
std::vector<launcher::NodePlan> plans_in(const std::filesystem::path& folder) {
  std::vector<launcher::NodePlan> plans;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".stdin") continue;
    const std::string bytes = content(entry.path());
    const auto end = bytes.find('\n');
    REQUIRE(end != std::string::npos);
    const auto size = launcher::plan_bytes(std::string_view(bytes).substr(0, end));
    REQUIRE(size.has_value());
    REQUIRE(bytes.size() >= end + 1 + *size);
    auto plan = launcher::decode_plan(std::string_view(bytes).substr(end + 1, *size));
    REQUIRE(plan.has_value());
    plans.push_back(std::move(*plan));
  }
  return plans;
}

}  // namespace

TEST_CASE("the job's secret comes to the hosts on stdin, and no process shows it") {
  SshHosts hosts;
  const TempDir folder;
  const std::string passed = "passed-" + unique_mark();
  auto settings = hosts.settings();
  settings.environment.emplace_back("MY_KEY", passed);
  Child launcher(hosts.command({"--hosts=h[1-2]", "--pass-env=TEST_MARK,MY_KEY",
                                "--remote-path=" + recording_ddprun(folder.path())},
                               {"until", hosts.gate()}),
                 settings);
  REQUIRE(launcher.wait_for(both_run));
  const auto plans = plans_in(folder.path());
  REQUIRE(plans.size() == 2);
  // What is looked for would be found: the sockets stand in command lines, MY_KEY in environments.
  CHECK(processes_showing("cmdline", "/tmp/ddprun-ssh-").size() >= 4);
  CHECK(processes_showing("environ", passed).size() >= 3);
  CHECK(processes_showing("cmdline", passed).empty());
  for (const launcher::NodePlan& plan : plans) {
    CHECK(plan.secret.size() >= 32);
    CHECK(plan.secret == plans[0].secret);
    CHECK(plan.mark.size() >= 32);
    for (const std::string& hidden : {plan.secret, plan.mark}) {
      CHECK(processes_showing("cmdline", hidden).empty());
      CHECK(processes_showing("environ", hidden).empty());
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".arguments") continue;
    CHECK(content(entry.path()).find(plans[0].secret) == std::string::npos);
    CHECK(content(entry.path()).find(passed) == std::string::npos);
  }
  hosts.open_gate();
  const auto job = launcher.wait();
  INFO(job.out + job.err);
  CHECK(job.status == 0);
  CHECK((job.out + job.err).find(plans[0].secret) == std::string::npos);
  CHECK(hosts.nothing_left());
}

TEST_CASE("a launcher with a closed or empty stdin runs its job, and stdin stays no socket") {
  const std::string redirection = GENERATE("<&-", "</dev/null");
  CAPTURE(redirection);
  SshHosts hosts;
  auto command = hosts.command({"--hosts=h[1-2]"}, {"until", hosts.gate()});
  const std::vector<std::string> shell{"/bin/sh", "-c", "exec \"$0\" \"$@\" " + redirection};
  command.insert(command.begin(), shell.begin(), shell.end());
  Child launcher(command, hosts.settings());
  REQUIRE(launcher.wait_for(both_run));
  std::error_code failed;
  const auto own = [&](pid_t pid) {
    return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/fd/0", failed).string();
  };
  CHECK(own(launcher.pid()) == "/dev/null");
  const auto workers = of_job(hosts, "meeting_worker");
  CHECK(workers.size() == 2);
  for (const pid_t worker : workers) CHECK(own(worker) == "/dev/null");
  hosts.open_gate();
  const auto job = launcher.wait();
  INFO(job.out + job.err);
  CHECK(job.status == 0);
  CHECK(without_waits(job.err).empty());
  CHECK(hosts.nothing_left());
}

TEST_CASE("a ddprun that ssh starts on a host without stdin ends at once and leaves no socket") {
  const std::string redirection = GENERATE("<&-", "</dev/null");
  CAPTURE(redirection);
  const TempDir folder;
  const std::string socket = (folder.path() / "socket").string();
  std::ofstream(socket) << "";
  const auto node = run(
      {"/bin/sh", "-c", "exec \"$0\" --ssh-node " + socket + " " + redirection, program("ddprun")});
  INFO(node.out + node.err);
  CHECK(node.status == 0);
  CHECK_FALSE(std::filesystem::exists(socket));
}
