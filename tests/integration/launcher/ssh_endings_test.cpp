// Hosts through a real ssh: what is stopped, what is silent, and what an earlier job has left.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

#include "base/unique_handle.hpp"
#include "tests/integration/launcher/ssh_hosts.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

std::vector<NodeProcesses> nodes_once_both_run(Child& launcher, const SshHosts& hosts) {
  REQUIRE(launcher.wait_for(both_run));
  auto nodes = nodes_of(hosts);
  REQUIRE(nodes.size() == 2);
  return nodes;
}

void check_gone(const std::vector<NodeProcesses>& nodes) {
  for (const NodeProcesses& node : nodes) {
    for (const pid_t pid : {node.agent, node.warden, node.first}) CHECK(is_gone(pid));
  }
}

/// As sshd makes one for ddprun. Without a listener it is what sshd leaves.
UniqueFd make_socket(const std::string& path, bool listens) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un addr{};
  addr.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof addr.sun_path);
  std::memcpy(addr.sun_path, path.c_str(), path.size());
  REQUIRE(bind(fd.get(), reinterpret_cast<const sockaddr*>(&addr), sizeof addr) == 0);
  if (listens) REQUIRE(listen(fd.get(), 8) == 0);
  return fd;
}

void make_older(const std::string& path) {
  timespec times[2];
  clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= 120;
  times[1] = times[0];
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

bool exists(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0;
}

}  // namespace

TEST_CASE("one Ctrl-C ends a host on which ddprun is stopped") {
  SshHosts hosts;
  Child& launcher = hosts.start({"--hosts=h[1-2]"}, {"until", hosts.gate()});
  const auto nodes = nodes_once_both_run(launcher, hosts);
  kill(nodes[0].warden, SIGSTOP);
  launcher.signal(SIGINT);
  const auto job = launcher.wait();
  INFO(job.out + job.err);
  CHECK(job.status == 128 + SIGINT);
  CHECK(hosts.nothing_left());
  check_gone(nodes);
}

TEST_CASE("a ddprun that is stopped on a host is reported, and goes on when it is continued") {
  SshHosts hosts;
  Child& launcher = hosts.start({"--hosts=h[1-2]"}, {"until", hosts.gate()});
  const auto nodes = nodes_once_both_run(launcher, hosts);
  kill(nodes[0].warden, SIGSTOP);
  const std::string told = ": ddprun there (pid " + std::to_string(nodes[0].warden) +
                           ") is stopped (SIGSTOP); run `kill -CONT ";
  REQUIRE(launcher.wait_for([&told](const std::string&, const std::string& err) {
    return err.find(told) != std::string::npos;
  }));
  kill(nodes[0].warden, SIGCONT);
  hosts.open_gate();
  const auto job = launcher.wait();
  INFO(job.out + job.err);
  CHECK(job.status == 0);
  CHECK(job.err.starts_with("ddprun: h"));
  check_gone(nodes);
}

namespace {

/// In how many rounds one node was alone.
std::size_t alone(const std::string& out) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = out.find("rank=0/1 ", at)) != std::string::npos; ++at) ++count;
  return count;
}

}  // namespace

TEST_CASE("an elastic job waits for no lease of a node that has ended by itself") {
  SshHosts hosts;
  // The lease is 120 s, longer than the launcher has in this test.
  Child& launcher = hosts.start(
      {"--hosts=h[1-2]", "--nnodes=1:2",
       "--rdzv-conf=last_call_timeout=1,keep_alive_interval=20,keep_alive_max_attempt=6"},
      {"until", hosts.gate()});
  REQUIRE(launcher.wait_for(both_run));
  // One that comes after the last call joins the second round.
  const std::size_t rounds_alone = alone(launcher.out());
  kill(node_of_rank(hosts, 1).agent, SIGKILL);
  CHECK(launcher.wait_for(
      [&](const std::string& out, const std::string&) { return alone(out) > rounds_alone; }));
  hosts.open_gate();
  const auto job = launcher.wait();
  INFO(job.out + job.err);
  CHECK(job.status == 0);
  CHECK(job.err.find("ddprun: h2: ddprun there exited with code 70") != std::string::npos);
  CHECK(hosts.nothing_left());
}

TEST_CASE("a host behind a silent network is named, and its node ends by itself") {
  SshHosts hosts;
  const Child& forwarder = hosts.start_forwarder();
  // Otherwise the times are 15 s, 15 s and 30 s.
  Child launcher(hosts.command({"--hosts=h1,far",
                                "--rdzv-conf=keep_alive_interval=0.5,keep_alive_max_attempt=3,"
                                "lost_timeout=3"},
                               {"until", hosts.gate()}, "",
                               " -o ServerAliveInterval=1 -o ServerAliveCountMax=2"),
                 hosts.settings());
  const auto nodes = nodes_once_both_run(launcher, hosts);
  forwarder.signal(SIGSTOP);
  // All that is on the hosts ends, although no end of a connection reaches `far`.
  check_gone(nodes);
  const auto job = launcher.wait();
  forwarder.signal(SIGCONT);
  INFO(job.out + job.err);
  CHECK(job.status == 69);
  CHECK(job.err.find("ddprun: far is lost: its connection ended, and ssh tells no reason") !=
        std::string::npos);
  CHECK(hosts.nothing_left());
}

TEST_CASE("sockets that killed jobs have left on a host are removed, and no others") {
  SshHosts hosts;
  const std::string base = "/tmp/ddprun-ssh-" + unique_mark();
  const std::string stray = base + "-stray";
  const std::string young = base + "-young";
  const std::string live = base + "-live";
  make_socket(stray, false);
  make_socket(young, false);
  const UniqueFd listener = make_socket(live, true);
  make_older(stray);
  make_older(live);
  const auto job = hosts.run_job({"--hosts=h1"});
  INFO(job.out + job.err);
  CHECK(job.status == 0);
  CHECK_FALSE(exists(stray));
  CHECK(exists(young));
  CHECK(exists(live));
  unlink(young.c_str());
  unlink(live.c_str());
}
