// Any process of a job on other hosts is killed at any instant: nothing survives anywhere.
#include <chrono>
#include <random>
#include <thread>

#include "tests/integration/launcher/ssh_hosts.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

enum class Victim { launcher, ssh, agent, warden, first, session };

}  // namespace

TEST_CASE("whichever process is killed while a job runs, nothing survives on any host") {
  SshHosts hosts;
  const auto victim = GENERATE(Victim::launcher, Victim::ssh, Victim::agent, Victim::warden,
                               Victim::first, Victim::session);
  std::mt19937 random(static_cast<unsigned>(victim));
  for (int run = 0; run < 10; ++run) {
    Child& launcher = hosts.start({"--hosts=h[1-2]"}, {"until", hosts.gate()});
    REQUIRE(launcher.wait_for([](const auto& out, const auto&) {
      return out.find("rank=0/2") != std::string::npos && out.find("rank=1/2") != std::string::npos;
    }));
    const auto nodes = nodes_of(hosts);
    REQUIRE(nodes.size() == 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 100));
    const NodeProcesses& node = nodes[random() % 2];
    switch (victim) {
      case Victim::launcher:
        launcher.signal(SIGKILL);
        break;
      case Victim::ssh:
        kill(of_job(hosts, "ssh").back(), SIGKILL);
        break;
      case Victim::agent:
        kill(node.agent, SIGKILL);
        break;
      case Victim::warden:
        kill(node.warden, SIGKILL);
        break;
      case Victim::first:
        kill(node.first, SIGKILL);
        break;
      case Victim::session:
        kill(node.session, SIGKILL);
        break;
    }
    const auto job = launcher.wait();
    INFO(job.out + job.err);
    CHECK((job.status == 69 || job.status == 70 || job.status == 128 + SIGKILL));
    CHECK(hosts.nothing_left());
    for (const NodeProcesses& each : nodes) {
      for (const pid_t pid : {each.agent, each.warden, each.first}) CHECK(is_gone(pid));
    }
  }
}

TEST_CASE("whichever process is killed while a job begins, nothing survives on any host") {
  SshHosts hosts;
  std::mt19937 random(7);
  for (int run = 0; run < 60; ++run) {
    Child& launcher = hosts.start({"--hosts=h[1-2]"}, {"until", hosts.gate()});
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 1'500));
    auto all = processes_with(hosts.job.mark_entry());
    std::sort(all.begin(), all.end());
    REQUIRE_FALSE(all.empty());
    // A worker that dies ends the job, too.
    kill(all[random() % all.size()], SIGKILL);
    launcher.wait();
    CHECK(hosts.nothing_left());
  }
}
