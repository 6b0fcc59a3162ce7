// Jobs that are started on other hosts through a real ssh.
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/integration/launcher/ssh_hosts.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using Words = std::multiset<std::string>;

namespace {

Words words_of(const ChildResult& job, const std::string& name) {
  const auto all = said(job.out, name);
  return {all.begin(), all.end()};
}

}  // namespace

TEST_CASE("one command starts a job on three hosts, with the ranks in their order") {
  SshHosts hosts;
  const auto job = hosts.run_job({"--hosts=h[1-3]", "--nproc-per-node=2"});
  INFO(job.out + job.err);
  CHECK(job.status == 0);
  CHECK(words_of(job, "rank") == Words{"0/6", "1/6", "2/6", "3/6", "4/6", "5/6"});
  CHECK(words_of(job, "node") == Words{"0/3", "0/3", "1/3", "1/3", "2/3", "2/3"});
  for (int rank = 0; rank < 6; ++rank)
    CHECK(job.out.find("[rank" + std::to_string(rank) + "] ") != std::string::npos);
  CHECK(without_waits(job.err).empty());
}

TEST_CASE("a file of hosts gives each host its number of workers") {
  SshHosts hosts;
  std::ofstream(hosts.path("hosts.txt")) << "# two hosts\nh1 slots=2\nh2:1\n";
  const auto job = hosts.run_job({"--hostfile=" + hosts.path("hosts.txt")});
  INFO(job.out + job.err);
  CHECK(job.status == 0);
  CHECK(words_of(job, "rank") == Words{"0/3", "1/3", "2/3"});
}

TEST_CASE("the folder, the environment and both outputs are those of the launcher") {
  SshHosts hosts;
  auto settings = hosts.settings();
  settings.directory = hosts.path("");
  settings.environment.emplace_back("NCCL_TEST", "a b\nc");
  settings.environment.emplace_back("OTHER_TEST", "x");
  settings.environment.emplace_back("MY_TEST", "y");
  std::ofstream(hosts.path("w.sh"))
      << "#!/bin/sh\necho \"in $PWD with $NCCL_TEST and $MY_TEST, not $OTHER_TEST\"\n"
         "cat\necho err >&2\n";
  std::filesystem::permissions(hosts.path("w.sh"), std::filesystem::perms::owner_all);
  auto command = hosts.command({"--hosts=h1", "--pass-env=TEST_MARK,MY_TEST"}, {}, "./w.sh");
  const auto job = run(command, settings);
  INFO(job.out + job.err);
  CHECK(job.status == 0);
  CHECK(job.out == "[rank0] in " + std::filesystem::canonical(hosts.path("")).string() +
                       " with a b\n[rank0] c and y, not \n");
  CHECK(job.err == "[rank0] err\n");
  CHECK(hosts.nothing_left());
}

TEST_CASE("a login shell that prints does no harm") {
  SshHosts hosts;
  const auto job = hosts.run_job({"--hosts=banner[1-2]"});
  INFO(job.out + job.err);
  CHECK(job.status == 0);
  CHECK(words_of(job, "rank") == Words{"0/2", "1/2"});
  CHECK(job.out.find("Welcome") == std::string::npos);
  CHECK(without_waits(job.err).empty());
}

TEST_CASE("a worker that fails on a host is reported once, with the host, and as a file") {
  SshHosts hosts;
  const std::string report = hosts.path("report.json");
  const auto job = hosts.run_job({"--hosts=h[1-3]", "--report=" + report},
                                 {"fail", "1", "0", "7", "until", hosts.gate()});
  INFO(job.out + job.err);
  CHECK(job.status == 7);
  const auto first = job.err.find("ddprun: culprit: rank 1 (h2, local rank 0, pid ");
  REQUIRE(first != std::string::npos);
  CHECK(job.err.find("culprit", first + 20) == std::string::npos);
  CHECK(job.err.find("reports it in full") == std::string::npos);
  std::ifstream file(report);
  std::stringstream json;
  json << file.rdbuf();
  CHECK(json.str().find("\"exit_code\": 7") != std::string::npos);
}

TEST_CASE("a worker that fails restarts the job on all hosts") {
  SshHosts hosts;
  const auto job = hosts.run_job({"--hosts=h[1-2]", "--max-restarts=1"}, {"fail", "1", "0", "7"});
  INFO(job.out + job.err);
  CHECK(job.status == 0);
  Words rounds = words_of(job, "round");
  // Rank 0 may be stopped before it prints its line in round 0.
  if (rounds.size() == 3) rounds.insert(rounds.begin(), "0");
  CHECK(rounds == Words{"0", "0", "1", "1"});
  // Both hosts print it.
  const auto first = job.err.find("restarting the workers (1 of 1 restarts)");
  REQUIRE(first != std::string::npos);
  CHECK(job.err.find("restarting the workers", first + 1) == std::string::npos);
}

TEST_CASE("hosts that cannot take part are all named, with the reason and the remedy") {
  SshHosts hosts;
  const auto job = hosts.run_job({"--hosts=closed,locked,unknown,h1"});
  INFO(job.out + job.err);
  CHECK(job.status == 69);
  CHECK(job.err.find("ddprun: closed cannot be reached: ssh: connect to host 127.0.0.1 port 1: "
                     "Connection refused\n") != std::string::npos);
  CHECK(job.err.find("ddprun: locked cannot be reached: ") != std::string::npos);
  const std::string config = " -F " + hosts.path("client") + " ";
  CHECK(job.err.find("(ssh-copy-id" + config + "locked)") != std::string::npos);
  CHECK(job.err.find("ddprun: unknown cannot be reached: ") != std::string::npos);
  CHECK(job.err.find("connect once by hand (/usr/bin/ssh" + config + "unknown)") !=
        std::string::npos);
  CHECK(job.out.empty());
}

TEST_CASE("an elastic job starts without a host that cannot be reached") {
  SshHosts hosts;
  const auto job =
      hosts.run_job({"--hosts=h1,closed,h2", "--nnodes=2:3", "--rdzv-conf=last_call_timeout=1"});
  INFO(job.out + job.err);
  CHECK(job.status == 0);
  CHECK(job.err.find("ddprun: closed cannot be reached") != std::string::npos);
  CHECK(words_of(job, "rank") == Words{"0/2", "1/2"});
}

TEST_CASE("a ddprun that is missing or of another version is named") {
  SshHosts hosts;
  const auto missing = hosts.run_job({"--hosts=h1", "--remote-path=/nonexistent/ddprun"});
  INFO(missing.err);
  CHECK(missing.status == 69);
  CHECK(missing.err.find("ddprun: h1: ddprun was not found there") != std::string::npos);
  CHECK(missing.err.find("--remote-path=PATH") != std::string::npos);

  std::ofstream(hosts.path("old")) << "#!/bin/sh\nprintf '\\036ddprun-node 0.0.1\\n'\ncat\n";
  std::filesystem::permissions(hosts.path("old"), std::filesystem::perms::owner_all);
  const auto other = hosts.run_job({"--hosts=h1", "--remote-path=" + hosts.path("old")});
  INFO(other.out + other.err);
  CHECK(other.status == 69);
  CHECK(other.err.find("ddprun: h1: ddprun there has version 0.0.1, this one has ") !=
        std::string::npos);
  // Nothing was told to it.
  CHECK(other.out.empty());
}

TEST_CASE("a program or a folder that a host lacks is named once, with the host") {
  SshHosts hosts;
  const auto job =
      run(hosts.command({"--hosts=h[1-2]"}, {}, "/nonexistent/train"), hosts.settings());
  INFO(job.out + job.err);
  CHECK(job.status == 127);
  const auto first = job.err.find("/nonexistent/train");
  REQUIRE(first != std::string::npos);
  CHECK(job.err.starts_with("ddprun: h"));
  CHECK(hosts.nothing_left());
}

TEST_CASE("one Ctrl-C ends the job on all hosts, and a second one kills") {
  SshHosts hosts;
  const bool twice = GENERATE(false, true);
  std::ofstream(hosts.path("w.sh")) << "#!/bin/sh\ntrap 'echo told; " << (twice ? "" : "exit 3")
                                    << "' INT TERM\n"
                                       "echo ready\nwhile :; do sleep 0.05; done\n";
  std::filesystem::permissions(hosts.path("w.sh"), std::filesystem::perms::owner_all);
  Child launcher(hosts.command({"--hosts=h[1-2]", "--grace-period=60"}, {}, hosts.path("w.sh")),
                 hosts.settings());
  const auto both = [](const std::string& what) {
    return [what](const std::string& out, const std::string&) {
      return out.find("[rank0] " + what) != std::string::npos &&
             out.find("[rank1] " + what) != std::string::npos;
    };
  };
  REQUIRE(launcher.wait_for(both("ready")));
  launcher.signal(SIGINT);
  REQUIRE(launcher.wait_for(both("told")));
  if (twice) {
    std::this_thread::sleep_for(300ms);  // two within 100 ms are one wish
    launcher.signal(SIGINT);
  }
  const auto job = launcher.wait();
  INFO(job.out + job.err);
  CHECK(job.status == 128 + SIGINT);
  CHECK(job.err.find("stopped by SIGINT") != std::string::npos);
  CHECK(hosts.nothing_left());
}

TEST_CASE("when the launcher or an agent is killed nothing survives on any host") {
  SshHosts hosts;
  Child& launcher = hosts.start({"--hosts=h[1-2]"}, {"until", hosts.gate()});
  REQUIRE(launcher.wait_for([](const auto& out, const auto&) {
    return out.find("rank=0/2") != std::string::npos && out.find("rank=1/2") != std::string::npos;
  }));
  const auto nodes = nodes_of(hosts);
  REQUIRE(nodes.size() == 2);
  SECTION("the launcher") { launcher.signal(SIGKILL); }
  SECTION("a remote agent") { kill(nodes[1].agent, SIGKILL); }
  const auto job = launcher.wait();
  INFO(job.out + job.err);
  CHECK((job.status == 69 || job.status == 70 || job.status == 128 + SIGKILL));
  CHECK(hosts.nothing_left());
  for (const NodeProcesses& node : nodes) {
    for (const pid_t pid : {node.agent, node.warden, node.first}) CHECK(is_gone(pid));
  }
}

TEST_CASE("a dry run shows the hosts and starts nothing") {
  const auto job = run({program("ddprun"), "--hosts=a,b[1-2]:4", "--dry-run", "train.py"});
  INFO(job.out + job.err);
  CHECK(job.status == 0);
  CHECK(job.out.find("a\n") != std::string::npos);
  CHECK(job.out.find("b2, 4 workers") != std::string::npos);
  CHECK(job.out.find("-R SOCKET:127.0.0.1:") != std::string::npos);
}
