// An rdzvd that is killed and started again with its state folder: agents notice nothing.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/integration/rendezvous/running_rdzvd.hpp"
#include "tests/integration/rendezvous/scripted_job.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using proto::Round;
using proto::Stop;

namespace {

/// rdzvd, its folder, and agents that outlive it.
struct Survival : ScriptedJob {
  Survival() { start("127.0.0.1:0"); }

  void start(const std::string& listen) {
    rdzvd.emplace(Words{"--listen=" + listen, "--state-dir=" + state()});
  }
  /// What it printed.
  std::string kill() {
    const ChildResult result = rdzvd->stop(SIGKILL);
    CHECK(result.status == 128 + SIGKILL);
    return result.err;
  }
  void restart() {
    const std::string address = rdzvd->first_line;
    kill();
    start(address);
  }
  [[nodiscard]] std::string state() const { return (folder / "state").string(); }
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(state()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  void add_agents(int count, const std::string& run_id = "job", std::chrono::seconds lease = 15s) {
    rdzv::ServicePlace place;
    place.host = rdzvd->host;
    place.port = rdzvd->port;
    place.run_id = run_id;
    for (int i = 0; i < count; ++i)
      agents.emplace_back(context, "node" + std::to_string(i), place, lease);
  }
  /// Its first worker is killed, and all have stopped.
  void fail_round(proto::RoundNumber number) {
    REQUIRE(all_stop_for_failure(number));
    tell_stopped(number);
  }

  TempDir folder;
  std::optional<Rdzvd> rdzvd;
};

}  // namespace

TEST_CASE("a round goes on when rdzvd is killed and started again with its state folder") {
  Survival job;
  job.add_agents(3);
  job.join_all();
  REQUIRE(job.all_in(0));
  for (int i = 0; i < 3; ++i) job.restart();
  // Each agent is at the new process when what it says has been answered.
  job.fail_round(0);
  for (const ServiceAgent& agent : job.agents)
    CHECK(std::count_if(agent.heard.begin(), agent.heard.end(), [](const auto& message) {
            return std::holds_alternative<Stop>(message);
          }) == 1);
  job.join_all();
  REQUIRE(job.all_in(1));
  for (const ServiceAgent& agent : job.agents) {
    CHECK(agent.last<Round>()->restart_count == 1);
    CHECK(agent.last<Round>()->epoch == 1);
  }
  job.restart();
  job.finish(1);
  CHECK(job.agents[2].last<proto::Finished>()->restart_count == 1);
  CHECK(job.rdzvd->stop().status == 0);
}

TEST_CASE("rdzvd may be killed between rounds, while some agents have joined") {
  Survival job;
  job.add_agents(3);
  job.agents[0].join(3, 3);
  job.agents[1].join(3, 3);
  // They are acknowledged when they are told that they wait.
  REQUIRE(run_until(job.context, [&] {
    return job.agents[0].has<proto::Waiting>() && job.agents[1].has<proto::Waiting>();
  }));
  job.restart();
  job.agents[2].join(3, 3);
  REQUIRE(job.all_in(0));
  job.fail_round(0);
  job.agents[1].join(3, 3);
  job.restart();
  job.agents[0].join(3, 3);
  job.agents[2].join(3, 3);
  REQUIRE(job.all_in(1));
  CHECK(job.agents[0].last<Round>()->restart_count == 1);
  job.finish(1);
}

TEST_CASE("the files of a job go when all its agents know how it ended") {
  Survival job;
  job.add_agents(2, "a job/with odd characters");
  job.join_all();
  REQUIRE(job.all_in(0));
  CHECK(job.files() == Words{"a%20job%2Fwith%20odd%20characters.journal", "clock", "lock"});
  job.finish(0);
  CHECK(run_until(job.context, [&] { return job.files() == Words{"clock", "lock"}; }));
}

TEST_CASE("a second rdzvd with the same state folder names the first") {
  Survival job;
  const ChildResult second =
      run(rdzvd_command({"--listen=127.0.0.1:0", "--state-dir=" + job.state()}));
  CHECK(second.status == 1);
  CHECK(second.err == "rdzvd: --state-dir: the state folder " + job.state() +
                          " is in use by the process " + std::to_string(job.rdzvd->child.pid()) +
                          ": each rdzvd needs one of its own\n");
  const ChildResult nowhere =
      run(rdzvd_command({"--listen=127.0.0.1:0", "--state-dir=/proc/none/none"}));
  CHECK(nowhere.status == 1);
  CHECK(nowhere.err.find("cannot make the state folder /proc/none/none: ") != std::string::npos);
}

TEST_CASE("a job with a damaged journal begins anew, another one goes on") {
  Survival job;
  job.add_agents(1, "damaged", 1s);
  job.add_agents(1, "good", 1s);
  for (ServiceAgent& agent : job.agents) agent.join(1, 1);
  REQUIRE(job.all_in(0));
  const std::string address = job.rdzvd->first_line;
  job.kill();
  {
    std::fstream file(job.folder / "state" / "damaged.journal",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(60);
    file.write("\0\1\2\3", 4);
  }
  job.start(address);
  ServiceAgent& damaged = job.agents[0];
  REQUIRE(run_until(job.context, [&] { return damaged.has<Stop>(); }));
  damaged.link->send(proto::Stopped{0, {}});
  damaged.join(1, 1);
  REQUIRE(run_until(job.context, [&] { return damaged.last<Round>()->number == 1; }));
  job.agents[1].link->send(proto::WorkersDone{0});
  REQUIRE(run_until(job.context, [&] { return job.agents[1].has<proto::Finished>(); }));
  CHECK_FALSE(job.agents[1].has<Stop>());
  const ChildResult result = job.rdzvd->stop();
  CHECK(result.err.find("damaged.journal is set aside as damaged.journal.damaged: ") !=
        std::string::npos);
}

TEST_CASE("jobs go on when the journal cannot be written, and rdzvd warns once") {
  Survival job;
  CHECK(job.rdzvd->stop().status == 0);
  // Files may have 512 bytes: enough for the clock, and for no job.
  job.rdzvd.reset();
  Child limited({"/bin/sh", "-c", "ulimit -f 1; exec \"$@\"", "sh", program("rdzvd"),
                 "--listen=127.0.0.1:0", "--state-dir=" + job.state()});
  REQUIRE(limited.wait_for_output("\n"));
  rdzv::ServicePlace place;
  place.host = "127.0.0.1";
  place.port = parse_endpoint(limited.out().substr(0, limited.out().find('\n')))->port.value();
  place.run_id = "job";
  for (const std::string name : {"a", "b"}) job.agents.emplace_back(job.context, name, place);
  job.join_all();
  REQUIRE(job.all_in(0));
  job.fail_round(0);
  job.join_all();
  REQUIRE(job.all_in(1));
  job.finish(1);
  limited.signal(SIGTERM);
  const ChildResult result = limited.wait();
  CHECK(result.status == 0);
  const std::string line = "cannot write the journal of the job 'job' in " + job.state();
  const auto found = result.err.find(line);
  REQUIRE(found != std::string::npos);
  CHECK(result.err.find(line, found + 1) == std::string::npos);
}
