// Jobs of several nodes that meet in an rdzvd, which is stopped, silent or killed.
#include <filesystem>
#include <memory>
#include <optional>

#include "tests/integration/launcher/running_rdzvd.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;

namespace {

bool says(Child& node, const std::string& text) {
  return node.wait_for(
      [&](const auto&, const auto& err) { return err.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("without an answer for a lease the workers are killed, and the job goes on later") {
  ManyNodes job;
  Rdzvd rdzvd;
  for (int i = 0; i < 2; ++i) job.start(rdzvd.options("2", kShortLease), {"until", job.gate()});
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/4 "));
  rdzvd.signal(SIGSTOP);
  for (Child& node : job.nodes) REQUIRE(says(node, "does not answer"));
  REQUIRE(eventually([&] { return job.workers().empty(); }));
  rdzvd.signal(SIGCONT);
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("round=1"));
  job.open_gate();
  job.succeed();
}

TEST_CASE("a node that waits for others outlives a rendezvous that is silent") {
  ManyNodes job;
  Rdzvd rdzvd;
  for (int i = 0; i < 2; ++i) job.start(rdzvd.options("2", kShortLease), {"until", job.gate()});
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/4 "));
  job.nodes[1].signal(SIGKILL);
  REQUIRE(says(job.nodes[0], "1 of 2 nodes have joined"));
  rdzvd.signal(SIGSTOP);
  REQUIRE(says(job.nodes[0], "does not answer"));
  // Beyond the lease and what the warden adds to it.
  CHECK_FALSE(eventually([&] { return processes_with(job.job.mark_entry()).empty(); },
                         std::chrono::seconds(3)));
  rdzvd.signal(SIGCONT);
  job.start(rdzvd.options("2", kShortLease), {"until", job.gate()});
  for (const std::size_t i : {0U, 2U}) REQUIRE(job.nodes[i].wait_for_output("round=1"));
  job.open_gate();
  const auto nodes = job.wait();
  CHECK(nodes[0].status == 0);
  CHECK(nodes[2].status == 0);
}

TEST_CASE("workers go on while no rdzvd is there, and join one without memory again") {
  ManyNodes job;
  auto rdzvd = std::make_unique<Rdzvd>();
  const std::string endpoint = rdzvd->endpoint;
  const auto options = rdzvd->options("2", kShortLease);
  for (int i = 0; i < 2; ++i) job.start(options, {"until", job.gate()});
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/4 "));
  rdzvd->signal(SIGKILL);
  rdzvd->wait();
  for (Child& node : job.nodes) REQUIRE(says(node, "Connection refused"));
  for (Child& node : job.nodes) CHECK(node.out().find("round=1") == std::string::npos);
  Rdzvd another(endpoint);
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("round=1"));
  job.open_gate();
  for (const ChildResult& node : job.wait()) {
    INFO(node.out + node.err);
    CHECK(node.status == 0);
    CHECK(said(node.out, "restarts") == std::vector<std::string>{"0", "0", "0", "0"});
  }
}

TEST_CASE("a node that finds an rdzvd at the port of its own rendezvous names what uses that") {
  const Rdzvd rdzvd;
  const auto refused = [&](std::vector<std::string> more) {
    ManyNodes job;
    more.insert(more.end(), {"--nnodes=2", "--rdzv-endpoint=" + rdzvd.endpoint});
    job.start(more);
    const ChildResult node = std::move(job.wait().front());
    INFO(node.err);
    CHECK(node.status != 0);
    return node.err;
  };
  CHECK_THAT(refused({}), Contains("add --rdzv-backend=c10d to use the rdzvd there"));
  CHECK_THAT(refused({"--rdzv-backend=c10d", "--rdzv-conf=is_host=1"}),
             Contains("leave out is_host=1 to use the rdzvd there"));
}

TEST_CASE("no process shows the secret of a job in its command line or environment") {
  const TempDir folder;
  const std::string path = (folder.path() / "secret").string();
  const std::string secret = "secret-of-" + unique_mark();
  std::ofstream(path) << secret << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  ManyNodes job;
  std::vector<std::string> options;
  std::optional<Rdzvd> rdzvd;
  SECTION("of an rdzvd") {
    rdzvd.emplace("127.0.0.1:0", std::vector<std::string>{"--secret-file=" + path});
    options = rdzvd->options("2", kShortLease);
  }
  SECTION("of a node with the rendezvous") { options = job.c10d("2"); }
  options.push_back("--rdzv-secret-file=" + path);
  for (int i = 0; i < 2; ++i) job.start(options, {"until", job.gate()});
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/4 "));
  CHECK(processes_showing("cmdline", path).size() >= 2);  // the file's name is no secret
  for (const char* shown : {"cmdline", "environ"}) CHECK(processes_showing(shown, secret).empty());
  job.open_gate();
  job.succeed();
}

TEST_CASE("a node with a secret warns of a rendezvous that has none") {
  const TempDir folder;
  const std::string path = (folder.path() / "secret").string();
  std::ofstream(path) << "sixteen bytes or more\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  ManyNodes job;
  const Rdzvd rdzvd;
  auto options = rdzvd.options("2", kShortLease);
  job.start(options);
  options.push_back("--rdzv-secret-file=" + path);
  job.start(options);
  const auto nodes = job.wait();
  const std::string warning = "the rendezvous at " + rdzvd.endpoint +
                              " has no secret, so this node's secret proves nothing";
  CHECK_THAT(nodes[0].err, !Contains("secret"));
  CHECK_THAT(nodes[1].err, Contains("ddprun: warning: " + warning));
  for (const ChildResult& node : nodes) CHECK(node.status == 0);
}

TEST_CASE("the rendezvous in an agent answers rdzvd --status") {
  ManyNodes job;
  const std::string endpoint = "127.0.0.1:" + std::to_string(job.port);
  job.start(job.c10d("2"));
  REQUIRE(says(job.nodes[0], "1 of 2 nodes have joined"));
  const ChildResult status = run({program("rdzvd"), "--status", "--endpoint=" + endpoint});
  CHECK(status.status == 0);
  CHECK(status.out.find("rendezvous at " + endpoint + ": 1 job; no journal") == 0);
  CHECK(status.out.find(": forming, epoch 1, ") != std::string::npos);
  CHECK(status.out.find("  nodes: 1 (min 2, max 2)") != std::string::npos);
  job.start(job.c10d("2"));
  job.succeed();
}
