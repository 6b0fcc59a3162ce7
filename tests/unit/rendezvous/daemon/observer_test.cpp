// What rdzvd makes of --status, --fence and their answers.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/daemon/status_text.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/unit/rendezvous/daemon/read_options.hpp"

using namespace ddprun::rdzv;
using namespace std::chrono_literals;
using ddprun::Endpoint;
using ddprun::test::contains;
using ddprun::test::refused;
using ddprun::test::Words;

namespace {

ObserverOptions asked(const Words& words) {
  const auto result = parse_daemon_options(words);
  if (const auto* exit = std::get_if<DaemonExit>(&result)) FAIL(exit->text);
  return std::get<ObserverOptions>(result);
}

/// Without secrets of the user that runs the test.
struct NoSecrets {
  NoSecrets() {
    setenv("HOME", "/nonexistent", 1);
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("DDPRUN_SECRET_FILE");
  }
};

}  // namespace

TEST_CASE("rdzvd asks where and for what its options tell") {
  const NoSecrets none;
  const ObserverOptions status = asked({"--status"});
  CHECK(status.endpoint == Endpoint{"127.0.0.1", 29400});
  CHECK(status.run_id.empty());
  CHECK(status.fence.empty());
  CHECK(status.secret.empty());
  CHECK_FALSE(status.json);
  const ObserverOptions fence =
      asked({"--fence=node7", "--run-id=train-7", "--endpoint=head", "--json"});
  CHECK(fence.endpoint == Endpoint{"head", 29400});
  CHECK(fence.run_id == "train-7");
  CHECK(fence.fence == "node7");
  CHECK(fence.json);
  CHECK(asked({"--status", "--endpoint=[::1]:5"}).endpoint == Endpoint{"::1", 5});
  CHECK(asked({"--status", "--endpoint=5"}).endpoint == Endpoint{"127.0.0.1", 5});
}

TEST_CASE("rdzvd asks with the secret that an agent of this user would have") {
  const NoSecrets none;
  const ddprun::test::TempDir dir;
  const auto put = [&](const std::string& name) {
    const std::string path = dir / name;
    std::ofstream(path) << "sixteen bytes of " << name;
    REQUIRE(chmod(path.c_str(), 0600) == 0);
    return path;
  };
  REQUIRE(mkdir(std::string(dir / "ddprun").c_str(), 0700) == 0);
  put("ddprun/secret");
  setenv("XDG_CONFIG_HOME", std::string(dir / "").c_str(), 1);
  CHECK(asked({"--status"}).secret == "sixteen bytes of ddprun/secret");
  setenv("DDPRUN_SECRET_FILE", put("named").c_str(), 1);
  CHECK(asked({"--status"}).secret == "sixteen bytes of named");
  CHECK(asked({"--status", "--secret-file=" + put("given")}).secret == "sixteen bytes of given");
  setenv("DDPRUN_SECRET_FILE", std::string(dir / "missing").c_str(), 1);
  CHECK(contains(refused({"--status"}), "rdzvd: cannot read the secret file"));
  // To serve it takes none that was not named.
  CHECK(std::get<DaemonOptions>(parse_daemon_options({})).secret.empty());
}

TEST_CASE("a wrong question is named in one line") {
  const NoSecrets none;
  CHECK(contains(refused({"--fence=a"}), "--fence: the job is missing: add --run-id=ID"));
  CHECK(contains(refused({"--fence=", "--run-id=a"}), "--fence needs a value: --fence=NODE"));
  CHECK(contains(refused({"--fence"}), "--fence needs a value: --fence=NODE"));
  CHECK(contains(refused({"--run-id=a"}), "--run-id: only with --status or --fence=NODE"));
  CHECK(contains(refused({"--endpoint=a"}), "--endpoint: only with --status or --fence=NODE"));
  CHECK(contains(refused({"--json"}), "--json: only with --status or --fence=NODE"));
  CHECK(contains(refused({"--status", "--run-id="}), "--run-id needs a value"));
  CHECK(contains(refused({"--status", "--run-id=" + std::string(256, 'x')}), "at most 255 bytes"));
  CHECK(contains(refused({"--status", "--endpoint=a:b"}), "--endpoint=a:b: "));
  CHECK(contains(refused({"--status", "--endpoint=a:0"}), "port 0 cannot be asked"));
  // As a shell has it where a variable is not set.
  CHECK(contains(refused({"--fence", "", "--run-id=x"}), "--fence: the node is missing"));
  CHECK(contains(refused({"--fence=", "--run-id=x"}), "--fence"));
  CHECK(contains(refused({"--status", "--run-id", ""}), "--run-id"));
  CHECK(contains(refused({"--status", "--fence=a", "--run-id=x"}), "give one of them"));
  CHECK(contains(refused({"--run-id", ""}), "--run-id: only with --status or --fence=NODE"));
  CHECK(contains(refused({"--status", "--endpoint", ""}), "--endpoint=: "));
}

TEST_CASE("options for serving are refused in a question") {
  const NoSecrets none;
  for (const std::string option :
       {"--listen=1", "--listen-timeout=1", "--allow-uid=any", "--state-dir=x",
        "--journal=etcd://h", "--no-old-dialect", "--no-store", "--max-clients=1",
        "--max-unread-bytes=1", "--handshake-timeout=1", "--stats-interval=1"}) {
    const std::string line =
        option.substr(0, option.find('=')) + ": only for serving, not for --status or --fence; ";
    CHECK(contains(refused({"--status", option}), line));
    CHECK(contains(refused({option, "--fence=a", "--run-id=b"}), line));
    CHECK(std::holds_alternative<DaemonOptions>(parse_daemon_options({option})));
  }
  CHECK(asked({"--log-level=info", "--status"}).fence.empty());
}

TEST_CASE("the pages of a status are one list") {
  using namespace ddprun::proto;
  const auto job = [](const std::string& id, std::vector<std::string> agents) {
    JobStatus made;
    made.run_id = id;
    made.nodes = static_cast<int>(agents.size());
    for (const std::string& agent : agents) made.members.push_back({agent, {}, {}, true, {}});
    return made;
  };
  Status status;
  for (Status page : {Status{{job("a", {"1"}), job("b", {"1", "2"})}, 3, StatusPlace{"b", "2"}},
                      Status{{job("b", {"3"}), job("c", {})}, 4, StatusPlace{"c", ""}},
                      Status{{job("c", {"1", "2"})}, 4, std::nullopt}})
    append_page(status, page);
  REQUIRE(status.jobs.size() == 3);
  CHECK(status.job_count == 4);
  CHECK_FALSE(status.next.has_value());
  const auto& members = status.jobs[1].members;
  CHECK(status.jobs[1].run_id == "b");
  CHECK(status.jobs[1].nodes == 1);  // as the last page has it
  REQUIRE(members.size() == 3);
  CHECK(members[0].agent + members[1].agent + members[2].agent == "123");
  CHECK(status.jobs[0].members.size() == 1);
  CHECK(status.jobs[2].members.size() == 2);
}

TEST_CASE("the status of a rendezvous is text for people") {
  using namespace ddprun::proto;
  Status status;
  status.journal = true;
  status.durable = false;
  status.job_count = 3;
  JobStatus job;
  job.run_id = "a\x1b[31mb";
  job.epoch = 2;
  job.phase = "running";
  job.round = 4;
  job.nodes = 5;
  job.min_nodes = 2;
  job.max_nodes = 6;
  job.restart_count = 1;
  job.max_restarts = 3;
  job.age = 125s;
  job.members = {{"node1.4711.0b5c", "node1", 0, true, 1200ms},
                 {"n2.1", "n2", std::nullopt, false, 12s, true},
                 {"n3.1", "", std::nullopt, true, 3ms}};
  status.jobs = {job, {}};
  status.jobs[1].run_id = "new";
  status.jobs[1].epoch = 1;
  CHECK(status_text(status, "head:29400") ==
        "rendezvous at head:29400: 3 jobs; the journal cannot be written now: jobs restart if this "
        "rendezvous ends\n"
        "\n"
        "job a\\x1b[31mb: running, round 4, epoch 2, 2 min 5 s old\n"
        "  nodes: 5 (min 2, max 6); restarts: 1 of 3\n"
        "  NODE              GROUP RANK  CONNECTION                         AGENT\n"
        "  node1             0           attached, heard 1.2 s ago          node1.4711.0b5c\n"
        "  n2                -           gone, silent for 12.0 s or longer  n2.1\n"
        "  (has not joined)  -           attached, heard 3 ms ago           n3.1\n"
        "  and 2 more nodes\n"
        "\n"
        "job new: no node has joined, epoch 1, 0 ms old\n"
        "\n"
        "and 1 more job; --run-id=ID shows one\n");
}
