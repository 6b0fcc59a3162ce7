// --rdzv-tls with real programs: nodes among themselves, and nodes with an rdzvd.
#include <filesystem>
#include <fstream>

#include "tests/integration/launcher/running_rdzvd.hpp"
#include "tests/support/tls.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;

namespace {

class SecretFile {
 public:
  explicit SecretFile(const std::string& text = "sixteen bytes or more\n") {
    std::ofstream(path()) << text;
    std::filesystem::permissions(path(), std::filesystem::perms::owner_read);
  }
  [[nodiscard]] std::string path() const { return (folder_.path() / "secret").string(); }

 private:
  TempDir folder_;
};

std::vector<std::string> with(std::vector<std::string> options,
                              const std::vector<std::string>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace

TEST_CASE("nodes of a job meet over TLS, and their workers restart over it") {
  tls();
  const SecretFile secret;
  ManyNodes job;
  for (int node_rank = 0; node_rank < 2; ++node_rank)
    job.start(with(job.fixed("2", node_rank),
                   {"--rdzv-tls", "--max-restarts=1", "--rdzv-secret-file=" + secret.path()}),
              {"fail", "0", "0", "3"});
  const auto nodes = job.wait();
  for (const ChildResult& node : nodes) {
    INFO(node.out + node.err);
    CHECK(node.status == 0);
    CHECK(node.out.find("restarts=1") != std::string::npos);
  }
}

TEST_CASE("a node without --rdzv-tls is told to add it") {
  tls();
  const SecretFile secret;
  ManyNodes job;
  const std::string file = "--rdzv-secret-file=" + secret.path();
  Child& host = job.start(with(job.fixed("2", 0), {"--rdzv-tls", file}));
  REQUIRE(host.wait_for([](const auto&, const auto& err) {
    return err.find("1 of 2 nodes have joined") != std::string::npos;
  }));
  Child& plain = job.start(with(job.fixed("2", 1), {file}));
  const ChildResult refused = plain.wait();
  CHECK(refused.status == 69);
  CHECK_THAT(refused.err, Contains("it encrypts its connections; add --rdzv-tls"));
  CHECK(host.wait_for([](const auto&, const auto& err) {
    return err.find("it does not encrypt: it needs --rdzv-tls") != std::string::npos;
  }));
  host.signal(SIGTERM);
  host.wait();
}

TEST_CASE("over TLS a node with another secret is told so") {
  tls();
  const SecretFile secret;
  const Rdzvd rdzvd("127.0.0.1:0", {"--tls", "--secret-file=" + secret.path()});
  const SecretFile other("another secret of some bytes\n");
  ManyNodes job;
  job.start(
      with(rdzvd.options("2", kShortLease), {"--rdzv-tls", "--rdzv-secret-file=" + other.path()}));
  const ChildResult node = std::move(job.wait().front());
  CHECK(node.status == 69);
  CHECK_THAT(node.err, Contains("it has another secret than this node"));
}

TEST_CASE("without a libssl that can be used --rdzv-tls starts nothing and names the packages") {
  const SecretFile secret;
  const TempDir folder;
  for (const char* name : {"libssl.so.3", "libssl.so.1.1"})
    std::ofstream(folder.path() / name) << "no library";
  const ChildResult node =
      run({"env", "LD_LIBRARY_PATH=" + folder.path().string(), program("ddprun"), "--nnodes=2",
           "--master-addr=127.0.0.1", "--rdzv-tls", "--rdzv-secret-file=" + secret.path(), "true"});
  CHECK(node.status == 2);
  CHECK_THAT(node.err, Contains("--rdzv-tls: OpenSSL 1.1.1 or 3 cannot be used") &&
                           Contains("install it (Debian and Ubuntu: libssl3"));
}

TEST_CASE("an rdzvd with --tls serves nodes and --status over TLS only") {
  tls();
  const SecretFile secret;
  const Rdzvd rdzvd("127.0.0.1:0", {"--tls", "--secret-file=" + secret.path()});
  ManyNodes job;
  const auto options =
      with(rdzvd.options("2", kShortLease), {"--rdzv-tls", "--rdzv-secret-file=" + secret.path()});
  for (int i = 0; i < 2; ++i) job.start(options, {"until", job.gate()});
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/4 "));
  const std::vector<std::string> ask = {program("rdzvd"), "--status",
                                        "--endpoint=" + rdzvd.endpoint,
                                        "--secret-file=" + secret.path()};
  const ChildResult encrypted = run(with(ask, {"--tls"}));
  CHECK(encrypted.status == 0);
  CHECK_THAT(encrypted.out, Contains("nodes: 2 (min 2, max 2)"));
  const ChildResult plain = run(ask);
  CHECK(plain.status == 69);
  CHECK_THAT(plain.err, Contains(" encrypts: add --tls"));
  job.open_gate();
  job.succeed();
}

TEST_CASE("an rdzvd without --tls is not joined by a node with --rdzv-tls") {
  tls();
  const SecretFile secret;
  const Rdzvd rdzvd("127.0.0.1:0", {"--secret-file=" + secret.path()});
  ManyNodes job;
  job.start(
      with(rdzvd.options("2", kShortLease), {"--rdzv-tls", "--rdzv-secret-file=" + secret.path()}));
  const ChildResult node = std::move(job.wait().front());
  CHECK(node.status == 69);
  CHECK_THAT(node.err, Contains("it does not encrypt its connections; start it with TLS, too"));
  const ChildResult asked = run({program("rdzvd"), "--status", "--endpoint=" + rdzvd.endpoint,
                                 "--secret-file=" + secret.path(), "--tls"});
  CHECK(asked.status == 69);
  CHECK_THAT(asked.err, Contains(" does not encrypt: leave out --tls"));
}
