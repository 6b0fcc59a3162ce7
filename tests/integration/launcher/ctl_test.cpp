// ddpctl and running jobs.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/unique_handle.hpp"
#include "proto/frame.hpp"
#include "tests/integration/launcher/named_job.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;
using test::Child;
using test::ChildResult;
using test::kRunsOn;
using test::NamedJob;
using test::without_stdin;

namespace {

UniqueFd connect_to(const std::string& id) {
  const std::string name = "ddprun/" + std::to_string(getuid()) + "/" + id;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return {};
  return socket;
}

void send_all(const UniqueFd& socket, const std::string& bytes) {
  static_cast<void>(!::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

}  // namespace

TEST_CASE("a job is listed, and its workers are shown with their state") {
  NamedJob job(kRunsOn, {"--max-restarts=2"});
  job.await("up");
  CHECK_THAT(job.ctl({"ls"}).out, Contains("JOB") && Contains(job.id()));
  CHECK_THAT(job.ctl({"ls", "--json"}).out, Contains("\"run_id\":\"" + job.id() + "\""));

  const ChildResult status = job.ctl({"status", job.id()});
  CHECK(status.status == 0);
  CHECK_THAT(status.out, Contains("job " + job.id() + " on ") && Contains(": running, ") &&
                             Contains("; 0 of 2 restarts\n") && Contains("program: ") &&
                             Contains("2 workers on 1 node;"));
  const ChildResult json = job.ctl({"status", job.id(), "--json"});
  CHECK_THAT(json.out, Contains(R"("state":"running")") && Contains(R"("rank":1,"local_rank":1)") &&
                           Contains(R"("cpu_seconds":)") && Contains(R"("memory_bytes":)"));
  CHECK(job.ctl({"stop", job.id()}).status == 0);
  CHECK_THAT(job.end(128 + SIGTERM),
             Contains("ddprun: ddpctl (pid ") && Contains(") asks this job to end"));
}

TEST_CASE("events are followed until the job has ended, whose exit code `wait` has") {
  const test::TempDir folder;
  const std::string file = (folder / "go").string();
  NamedJob job("echo up; while [ ! -e " + file +
                   " ]; do sleep 0.05; done; if [ $RANK = 1 ]; then exit 7; fi; sleep 20",
               {"--max-restarts=1"});
  job.await("up");
  Child follower(NamedJob::command({"events", job.id(), "-f"}), without_stdin());
  Child waiter(NamedJob::command({"wait", job.id()}), without_stdin());
  job.await_clients(2);
  std::ofstream(file) << "go";
  const ChildResult events = follower.wait();
  INFO(events.out + events.err);
  CHECK(events.status == 0);
  CHECK_THAT(events.out, Contains("round 0  round_began  ") && Contains("worker_began  rank=0 ") &&
                             Contains("worker_ended  rank=1 ") && Contains("exit_code=7") &&
                             Contains("round 1  round_began  ") &&
                             Contains("  line  ddprun: rank 1 exited with code 7") &&
                             Contains("job_ended  outcome=failed"));
  CHECK(waiter.wait().status == 7);
  job.end(7);
}

TEST_CASE("events go to a file as well, behind what it has") {
  const test::TempDir folder;
  const std::string file = (folder / "events.jsonl").string();
  std::ofstream(file) << "before\n";
  NamedJob job("exit $RANK", {"--event-log=" + file, "--max-restarts=1"});
  job.end(1);
  std::ifstream events(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(events, line);) lines.push_back(line);
  REQUIRE(lines.size() > 6);
  CHECK(lines[0] == "before");
  CHECK_THAT(lines[1], Contains(R"({"number":1,)") && Contains(R"("event":"round_began")"));
  CHECK_THAT(lines.back(), Contains(R"("event":"job_ended")") && Contains(R"("outcome":"failed")"));
  const auto has = [&](const std::string& event) {
    return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find("\"event\":\"" + event + "\"") != std::string::npos;
    });
  };
  CHECK(has("round_began") == 2);
  CHECK(has("worker_began") == 4);
  CHECK(has("worker_ended") == 4);
}

TEST_CASE("a file for events that cannot be made starts nothing, and a full disk disturbs no job") {
  NamedJob refused("echo up", {"--event-log=/nowhere/events.jsonl"});
  CHECK_THAT(refused.end(2), Contains("--event-log: cannot write /nowhere/events.jsonl: "));
  NamedJob device("echo up", {"--event-log=/dev/full"});
  CHECK_THAT(device.end(2), Contains("--event-log: cannot write /dev/full: not a regular file"));

  const test::TempDir folder;
  const std::string disk = (folder / "disk").string();
  std::filesystem::create_directory(disk);
  const std::string mount = "mount -t tmpfs -o size=4k none " + disk;
  const auto probe = test::run({"/usr/bin/env", "unshare", "-Urm", "sh", "-c", mount});
  if (probe.status != 0) test::skip("no user and mount namespaces here: " + probe.err);
  const std::string job = mount + " && head -c 4096 /dev/zero >" + disk + "/fill && exec " +
                          test::program("ddprun") + " --rdzv-id=ctl-" + test::unique_mark() +
                          " --event-log=" + disk + "/events --no-python /bin/echo up";
  const ChildResult full = test::run({"/usr/bin/env", "unshare", "-Urm", "sh", "-c", job});
  INFO(full.out + full.err);
  CHECK(full.status == 0);
  CHECK_THAT(full.err, Contains(" bytes of events were not written to " + disk + "/events"));
}

TEST_CASE("workers get a signal, all of them or one") {
  NamedJob job("trap 'echo got' USR1; trap 'exit 0' USR2; echo up; while :; do sleep 0.05; done");
  job.await("up");
  CHECK(job.ctl({"signal", "usr1", job.id(), "--rank=0"}).status == 0);
  REQUIRE(job.job().wait_for_output("got"));
  CHECK_THAT(job.job().out(), Contains("[rank0] got"));
  const ChildResult absent = job.ctl({"signal", "USR1", job.id(), "--rank=2"});
  CHECK(absent.status == 1);
  CHECK_THAT(absent.err, Contains("no worker of this node has the rank 2 and runs"));
  CHECK(job.ctl({"signal", "USR2", job.id()}).status == 0);
  CHECK_THAT(job.end(0), Contains("sends SIGUSR1 to rank 0") &&
                             Contains("sends SIGUSR2 to the workers of this node"));
}

TEST_CASE("a job that does not end in its grace period can be ended at once") {
  NamedJob job("trap '' TERM; echo up; while :; do sleep 0.05; done", {"--grace-period=300"});
  job.await("up");
  CHECK(job.ctl({"stop", job.id(), "--now"}).status == 0);
  CHECK_THAT(job.end(128 + SIGTERM), Contains("asks this job to end at once"));
}

TEST_CASE("stacks of workers are shown") {
  NamedJob job(kRunsOn);
  job.await("up");
  const ChildResult one = job.ctl({"stacks", job.id(), "--rank=1"});
  INFO(one.out + one.err);
  CHECK(one.status == 0);
  CHECK_THAT(one.out, Matches("rank 1:\n    [^]*"));
  CHECK_THAT(job.ctl({"stacks", job.id()}).out, Contains("rank 0:\n") && Contains("rank 1:\n"));
  job.ctl({"stop", job.id(), "--now"});
  job.end(128 + SIGTERM);
}

TEST_CASE("workers write a checkpoint when they are asked to, and go on") {
  const std::vector<std::string> saves{test::helper("job_worker"), "saves", "saves", "sleep", "60"};
  NamedJob job(saves, {});
  job.await("saves");
  const ChildResult result = job.ctl({"save", job.id()});
  INFO(result.out + result.err);
  CHECK(result.status == 0);
  CHECK_THAT(result.out, Matches(R"(2 workers have saved, by step 5 \(.+\)\n)"));
  job.await("saved");
  job.job().signal(SIGUSR2);
  REQUIRE(job.job().wait_for([](auto&, const std::string& err) {
    return err.find("SIGUSR2 asks for a checkpoint") != std::string::npos &&
           err.find("2 workers have saved") != err.rfind("2 workers have saved");
  }));
  CHECK_THAT(job.ctl({"events", job.id()}).out,
             Contains("save_ended  took_seconds=") && Contains(" workers=2\n"));
  job.ctl({"stop", job.id()});
  CHECK_THAT(job.end(128 + SIGTERM), Contains(") asks for a checkpoint"));
}

TEST_CASE("a worker that is asked to save and does not is named") {
  const std::string worker = test::helper("job_worker");
  NamedJob job("if [ $RANK = 0 ]; then exec " + worker + " saves sleep 60; fi; exec " + worker +
               " never-saves sleep 60");
  REQUIRE(job.job().wait_for_output("never-saves"));
  REQUIRE(job.job().wait_for_output("[rank0] saves"));
  const ChildResult late = job.ctl({"save", job.id(), "--timeout=5"});
  CHECK(late.status == 1);
  CHECK_THAT(late.err, Contains("rank 1 has not saved within 5.0 s; it stays asked for"));
  Child waits(NamedJob::command({"save", job.id()}), without_stdin());
  REQUIRE(job.job().wait_for([](auto&, const std::string& err) {
    const std::string asked = "asks for a checkpoint";
    return err.find(asked) != err.rfind(asked);
  }));
  job.ctl({"stop", job.id(), "--now"});
  const ChildResult ended = waits.wait();
  CHECK(ended.status == 1);
  CHECK_THAT(ended.err, Contains("the round ended before ranks 0, 1 had saved"));
  job.end(128 + SIGTERM);
}

TEST_CASE("a program that does not save when asked is not disturbed") {
  NamedJob job(kRunsOn);
  job.await("up");
  const ChildResult result = job.ctl({"save", job.id()});
  CHECK(result.status == 1);
  CHECK_THAT(result.err, Contains("no worker of this node says that it saves when asked"));
  job.job().signal(SIGUSR2);
  REQUIRE(job.job().wait_for([](auto&, const std::string& err) {
    const std::string told = "no checkpoint as asked for";
    return err.find(told) != err.rfind(told);
  }));
  job.ctl({"stop", job.id()});
  job.end(128 + SIGTERM);
}

TEST_CASE("all workers are started anew when that is asked for, and it costs no restart") {
  NamedJob job("echo up $DDPRUN_ROUND $TORCHELASTIC_RESTART_COUNT; while :; do sleep 0.05; done");
  job.await("up 0 0");
  CHECK(job.ctl({"restart", job.id()}).status == 0);
  job.await("up 1 0");
  CHECK_THAT(job.ctl({"status", job.id()}).out, Contains("; 0 of 0 restarts\n"));
  CHECK(job.ctl({"restart", job.id()}).status == 0);
  job.await("up 2 0");
  job.ctl({"stop", job.id()});
  CHECK_THAT(job.end(128 + SIGTERM), Contains(") asks for a restart of all workers") &&
                                         Contains("a restart was asked for; "));
}

TEST_CASE("what is not there, or does not answer, is told in a line") {
  NamedJob job(kRunsOn);
  job.await("up");
  const ChildResult absent = job.ctl({"status", "no-such-job"});
  CHECK(absent.status == 1);
  CHECK_THAT(absent.err, Contains("ddpctl: no job here is called no-such-job; there is ") &&
                             Contains(job.id()));
  const ChildResult first = job.ctl({"status", job.id().substr(0, job.id().size() - 1)});
  CHECK(first.status == 0);  // its beginning is enough

  Child waiter(NamedJob::command({"wait", job.id()}), without_stdin());
  job.await_clients(1);
  job.job().signal(SIGKILL);
  const ChildResult result = waiter.wait();
  CHECK(result.status == 69);
  CHECK_THAT(result.err, Contains("does not answer"));
  job.end(128 + SIGKILL);
}

TEST_CASE("clients that send garbage or never read disturb no job") {
  NamedJob job("echo up; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1; done; exit $RANK",
               {"--max-restarts=3"});
  job.await("up");
  const std::string hello = proto::encode_frame(proto::encode_hello({"job", 1, 1, {}}));
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(connect_to(job.id()));
    const UniqueFd& client = clients.back();
    if (!client) continue;
    if (i % 4 == 0) send_all(client, std::string(10'000, static_cast<char>(i)));
    if (i % 4 == 1)
      send_all(client, hello + proto::encode_frame(R"({"request":"events","follow":true})"));
    if (i % 4 == 2) {
      std::string requests;
      for (int n = 0; n < 1000; ++n) requests += proto::encode_frame("{}");
      send_all(client, hello + requests);
    }
  }
  const std::string err = job.end(1);
  CHECK_THAT(err, Contains("3 of 3 restarts used"));
}
