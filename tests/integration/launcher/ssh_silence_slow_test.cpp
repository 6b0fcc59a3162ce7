// Hosts through a real ssh that fall silent or are stopped, with the times that users have.
#include <chrono>
#include <iostream>
#include <thread>

#include "tests/integration/launcher/ssh_hosts.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

/// A job on h1 and `far`, the workers of which run until they are stopped.
struct SilentJob {
  explicit SilentJob(const std::vector<std::string>& options = {})
      : forwarder(hosts.start_forwarder()), launcher(hosts.start(with_hosts(options), until())) {
    REQUIRE(launcher.wait_for([](const std::string& out, const std::string&) {
      return out.find("rank=0/2") != std::string::npos && out.find("rank=1/2") != std::string::npos;
    }));
    far = node_of_rank(hosts, 1);
    worker = of_job(hosts, "meeting_worker");
  }
  static std::vector<std::string> with_hosts(std::vector<std::string> options) {
    options.emplace_back("--hosts=h1,far");
    return options;
  }
  std::vector<std::string> until() { return {"until", hosts.gate()}; }

  SshHosts hosts;
  Child& forwarder;
  Child& launcher;
  NodeProcesses far;
  std::vector<pid_t> worker;
};

std::string since(Clock::time_point begin) {
  return std::to_string(
             std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count()) +
         " ms";
}

}  // namespace

TEST_CASE("with the usual times a silent host is named and its node ends") {
  SilentJob job;
  const bool in_session = GENERATE(true, false);
  const pid_t silent = in_session ? job.far.session : job.forwarder.pid();
  kill(silent, SIGSTOP);
  const auto begin = Clock::now();
  const bool was_told = job.launcher.wait_for([](const std::string&, const std::string& err) {
    return err.find("far is lost") != std::string::npos;
  });
  CHECK(was_told);
  std::cout << (in_session ? "session stopped" : "forwarder stopped") << ": the launcher tells in "
            << since(begin);
  for (const pid_t pid : job.worker) CHECK(is_gone(pid));
  std::cout << ", the workers are gone in " << since(begin);
  for (const pid_t pid : {job.far.agent, job.far.warden, job.far.first}) CHECK(is_gone(pid));
  std::cout << ", the node in " << since(begin) << std::endl;
  const auto result = job.launcher.wait();
  kill(silent, SIGCONT);
  INFO(result.out + result.err);
  CHECK(result.status == 69);
  CHECK(job.hosts.nothing_left());
}

TEST_CASE("a ddprun that stays stopped on a host does not keep the job from its end") {
  SilentJob job({"--kill-timeout=1"});
  kill(job.far.warden, SIGSTOP);
  job.hosts.open_gate();
  const auto result = job.launcher.wait();
  INFO(result.out + result.err);
  CHECK(result.err.find("was stopped and not continued: killing everything") != std::string::npos);
  CHECK(job.hosts.nothing_left());
  for (const pid_t pid : {job.far.agent, job.far.warden, job.far.first}) CHECK(is_gone(pid));
}

TEST_CASE("three signals end a launcher that waits for a host which does not answer") {
  SilentJob job;
  job.forwarder.signal(SIGSTOP);
  for (int i = 0; i < 3; ++i) {
    job.launcher.signal(SIGINT);
    std::this_thread::sleep_for(300ms);  // two within 100 ms are one wish
  }
  const auto result = job.launcher.wait();
  job.forwarder.signal(SIGCONT);
  INFO(result.out + result.err);
  CHECK(result.status == 128 + SIGINT);
  CHECK(result.err.find("far was not awaited: its connection is closed") != std::string::npos);
  CHECK(job.hosts.nothing_left());
}
