// Jobs of several nodes after a rendezvous without a journal was killed.
#include "tests/integration/launcher/many_nodes.hpp"

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// The second process of a node; the first one is its warden.
pid_t agent_of(const Child& node, const Job& job) {
  for (const pid_t pid : processes_with(job.mark_entry()))
    if (parent_of(pid) == node.pid()) return pid;
  return -1;
}

class LostMemory {
 public:
  Child& start(bool hosts) {
    // It runs until the gate is open, unless another worker of its rank does.
    const std::string worker = "exec 9> " + ranks_.path().string() +
                               "/$RANK; flock -n 9 || exit 8; " + "echo begun; while [ ! -e " +
                               job.gate() + " ]; do sleep 0.05; done";
    return job.nodes.emplace_back(
        std::vector<std::string>{
            program("ddprun"), "--output=pipe", "--grace-period=2", "--nnodes=2",
            "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:" + std::to_string(job.port),
            "--rdzv-conf=keep_alive_interval=1,keep_alive_max_attempt=2,is_host=" +
                std::string(hosts ? "1" : "0"),
            "bash", "-c", worker},
        job.job.settings());
  }
  /// Neither its agent nor the service there can do anything; its workers run on.
  void freeze(const Child& node) const { kill(agent_of(node, job.job), SIGSTOP); }
  void kill_agent(const Child& node) const { kill(agent_of(node, job.job), SIGKILL); }

  ManyNodes job;

 private:
  TempDir ranks_;
};

}  // namespace

TEST_CASE("as many new nodes as a job has wait for workers that a killed rendezvous left") {
  LostMemory lost;
  Child& host = lost.start(true);
  Child& frozen = lost.start(false);
  for (Child& node : lost.job.nodes) REQUIRE(node.wait_for_output("begun"));
  lost.freeze(frozen);
  lost.kill_agent(host);
  host.wait();
  Child& first = lost.start(true);
  Child& second = lost.start(false);
  // At the end of the lease the frozen agent's warden kills what is there.
  CHECK(frozen.wait().status == 69);
  for (Child* node : {&first, &second}) CHECK(node->wait_for_output("begun"));
  lost.job.open_gate();
  for (Child* node : {&first, &second}) {
    const ChildResult result = node->wait();
    INFO(result.out + result.err);
    CHECK(result.status == 0);
  }
  CHECK(processes_with(lost.job.job.mark_entry()).empty());
}
