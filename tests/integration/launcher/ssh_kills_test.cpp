// Any process of a job on other hosts is killed at any instant, from the start of the launcher on:
// nothing survives anywhere.
#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <iostream>
#include <random>
#include <thread>

#include "machine/processes/process_tree.hpp"
#include "tests/integration/launcher/ssh_hosts.hpp"
#include "tests/support/repeats.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using machine::ProcessEntry;
using Clock = std::chrono::steady_clock;

namespace {

/// A job of two hosts has its workers within about half of it.
constexpr auto kInstantMax = 2'000ms;
/// For the lease (15 s), the grace period of 2 s, and a slow machine.
constexpr auto kEndLimit = 40s;

std::vector<pid_t> children_named(const std::vector<ProcessEntry>& all, pid_t parent,
                                  std::string_view name) {
  std::vector<pid_t> found;
  for (const ProcessEntry& entry : all) {
    if (entry.parent == parent && entry.state != 'Z' && entry.name.starts_with(name))
      found.push_back(entry.pid);
  }
  return found;
}

/// What sshd starts: a session, in it ddprun's first process (until then the login shell), its
/// warden, its agent.
enum class Victim { launcher, ssh, session, first, warden, agent };

std::vector<pid_t> candidates(Victim victim, pid_t launcher, pid_t sshd) {
  if (victim == Victim::launcher) return {launcher};
  const std::vector<ProcessEntry> all = machine::live_descendants();
  if (victim == Victim::ssh) return children_named(all, launcher, "ssh");
  std::vector<pid_t> level = children_named(all, sshd, "sshd");
  const std::vector<std::string_view> below{"ddprun", "ddprun", "ddp-agent"};
  for (int depth = 0; depth < static_cast<int>(victim) - static_cast<int>(Victim::session);
       ++depth) {
    std::vector<pid_t> next;
    for (const pid_t parent : level) {
      for (const pid_t child : children_named(all, parent, below[static_cast<std::size_t>(depth)]))
        next.push_back(child);
    }
    level = std::move(next);
  }
  return level;
}

/// Live processes of the launcher and of all hosts; this process adopts orphans, as init does on a
/// host.
std::vector<ProcessEntry> left(pid_t sshd) {
  std::vector<ProcessEntry> entries = machine::live_descendants();
  std::erase_if(entries, [sshd](const ProcessEntry& entry) {
    return entry.pid == sshd || entry.state == 'Z';
  });
  return entries;
}

void reap_orphans(pid_t sshd) {
  for (const ProcessEntry& entry : machine::live_descendants()) {
    if (entry.pid != sshd) waitpid(entry.pid, nullptr, WNOHANG);
  }
}

/// Kills the victim of so many jobs, each at a random instant, or as soon as it is there. Few in
/// every run of the tests, many in the slow ones.
void kill_often(Victim victim, const std::string& name) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  SshHosts hosts;
  const pid_t sshd = hosts.sshd();
  const auto seed = static_cast<unsigned>(repeats("DDPRUN_TEST_SEED", std::random_device()()));
  std::mt19937 random(seed);
  const int instants = repeats("DDPRUN_TEST_INSTANTS", 2);
  int before_workers = 0;
  auto longest = 0ms;
  for (int run = 0; run < instants; ++run) {
    const auto instant = std::chrono::milliseconds(random() % kInstantMax.count());
    const auto choice = random();
    INFO(name << ", DDPRUN_TEST_SEED=" << seed << ", run " << run << ", killed after "
              << instant.count() << " ms");
    Child launcher(hosts.command({"--hosts=h[1-2]"}, {"until", hosts.gate()}), hosts.settings());
    std::this_thread::sleep_for(instant);
    std::vector<pid_t> victims;
    REQUIRE(eventually([&] {
      victims = candidates(victim, launcher.pid(), sshd);
      return !victims.empty();
    }));
    if (of_job(hosts, "meeting_worker").empty()) ++before_workers;
    kill(victims[choice % victims.size()], SIGKILL);
    const auto killed_at = Clock::now();
    const bool all_ended = eventually([&] { return left(sshd).empty(); }, kEndLimit);
    longest = std::max(
        longest, std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - killed_at));
    std::string survivors;
    for (const ProcessEntry& entry : left(sshd)) survivors += machine::name_of(entry) + "; ";
    const ChildResult job = launcher.wait();
    INFO(job.out + job.err << "survivors: " << survivors);
    CHECK(all_ended);
    CHECK(job.status != 0);
    CHECK_FALSE(job.timed_out);
    reap_orphans(sshd);
  }
  std::cout << name << ": " << instants << " kills (DDPRUN_TEST_SEED=" << seed << "), "
            << before_workers << " before there were workers; the last process ended within "
            << longest.count() << " ms" << std::endl;
}

}  // namespace

TEST_CASE("a launcher that is killed leaves nothing on any host") {
  kill_often(Victim::launcher, "launcher");
}
TEST_CASE("an ssh that is killed leaves nothing on any host") { kill_often(Victim::ssh, "ssh"); }
TEST_CASE("a session of sshd that is killed leaves nothing on any host") {
  kill_often(Victim::session, "session of sshd");
}
TEST_CASE("a node's first process that is killed leaves nothing on any host") {
  kill_often(Victim::first, "first process");
}
TEST_CASE("a node's warden that is killed leaves nothing on any host") {
  kill_often(Victim::warden, "warden");
}
TEST_CASE("a node's agent that is killed leaves nothing on any host") {
  kill_often(Victim::agent, "agent");
}
