// --rdzv-tls with real programs: nodes among themselves, and nodes with an rdzvd.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "tests/integration/launcher/running_rdzvd.hpp"
#include "tests/support/certificates.hpp"
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

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::vector<std::string> with(std::vector<std::string> options,
                              const std::vector<std::string>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

/// The job's workers meet before a certificate of it expires, one to two seconds before `over_at`.
void wait_until_expired(ManyNodes& job, Clock::time_point over_at) {
  bool all_met = true;
  for (Child& node : job.nodes) all_met = node.wait_for_output("/4 ") && all_met;
  // That may be why they have not met.
  if (Clock::now() >= over_at - 2s) skip("this machine is too slow: it has expired already");
  REQUIRE(all_met);
  std::this_thread::sleep_until(over_at);
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

TEST_CASE("with certificates nodes need no secret: an rdzvd, two nodes, and --status") {
  tls();
  TestAuthority authority;
  const auto own = authority.issue("rdzvd");
  const Rdzvd rdzvd("127.0.0.1:0", {"--tls-cert=" + own.certificate, "--tls-key=" + own.key});
  ManyNodes job;
  const std::string trusted = "--rdzv-tls-ca=" + authority.file();
  const auto options = with(rdzvd.options("2", kShortLease), {trusted});
  for (int i = 0; i < 2; ++i) job.start(options, {"until", job.gate()});
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/4 "));
  const std::vector<std::string> ask = {program("rdzvd"), "--status",
                                        "--endpoint=" + rdzvd.endpoint};
  const ChildResult seen = run(with(ask, {"--tls-ca=" + authority.file()}));
  CHECK(seen.status == 0);
  CHECK_THAT(seen.out, Contains("nodes: 2 (min 2, max 2)"));
  TestAuthority other("other");
  const ChildResult distrusted = run(with(ask, {"--tls-ca=" + other.file()}));
  CHECK(distrusted.status == 69);
  CHECK_THAT(distrusted.err, Contains(" cannot be asked: its certificate is signed by "
                                      "CN=authority, which is not in " +
                                      other.file()));
  const ChildResult plain = run(ask);
  CHECK(plain.status == 69);
  job.open_gate();
  job.succeed();
}

TEST_CASE("with certificates, too, a node with a secret warns of a rendezvous that has none") {
  tls();
  TestAuthority authority;
  const auto own = authority.issue("rdzvd");
  const Rdzvd rdzvd("127.0.0.1:0", {"--tls-cert=" + own.certificate, "--tls-key=" + own.key});
  const SecretFile secret;
  ManyNodes job;
  const auto options = with(rdzvd.options("2", kShortLease), {"--rdzv-tls-ca=" + authority.file()});
  job.start(options);
  job.start(with(options, {"--rdzv-secret-file=" + secret.path()}));
  const auto nodes = job.wait();
  for (const ChildResult& node : nodes) {
    INFO(node.err);
    CHECK(node.status == 0);
  }
  CHECK_THAT(nodes[0].err, !Contains("secret proves nothing"));
  CHECK_THAT(nodes[1].err, Contains("has no secret, so this node's secret proves nothing"));
}

TEST_CASE("nodes of a job meet over TLS with a certificate each, and restart over it") {
  tls();
  TestAuthority authority;
  ManyNodes job;
  for (int i = 0; i < 2; ++i) {
    const auto own = authority.issue("node" + std::to_string(i));
    job.start(with(job.c10d("2"),
                   {"--rdzv-tls-ca=" + authority.file(), "--rdzv-tls-cert=" + own.certificate,
                    "--rdzv-tls-key=" + own.key, "--max-restarts=1"}),
              {"fail", "0", "0", "3"});
  }
  for (const ChildResult& node : job.wait()) {
    INFO(node.out + node.err);
    CHECK(node.status == 0);
    CHECK(node.out.find("restarts=1") != std::string::npos);
  }
}

TEST_CASE("a node that runs the rendezvous needs a certificate, and so do the others then") {
  tls();
  TestAuthority authority;
  const auto own = authority.issue("node0");
  const std::string trusted = "--rdzv-tls-ca=" + authority.file();
  {
    ManyNodes alone;
    alone.start(with(alone.fixed("2", 0), {trusted}));
    const ChildResult node = std::move(alone.wait().front());
    CHECK(node.status != 0);
    CHECK_THAT(node.err, Contains("this node runs the rendezvous, and a certificate is missing: "
                                  "add --rdzv-tls-cert=FILE and --rdzv-tls-key=FILE"));
  }
  ManyNodes job;
  Child& host = job.start(with(job.fixed("2", 0), {trusted, "--rdzv-tls-cert=" + own.certificate,
                                                   "--rdzv-tls-key=" + own.key}));
  REQUIRE(host.wait_for([](const auto&, const auto& err) {
    return err.find("1 of 2 nodes have joined") != std::string::npos;
  }));
  Child& bare = job.start(with(job.fixed("2", 1), {trusted}));
  const ChildResult refused = bare.wait();
  CHECK(refused.status == 69);
  CHECK_THAT(refused.err, Contains("cannot be used: it asks for a certificate: add "
                                   "--rdzv-tls-cert=FILE and --rdzv-tls-key=FILE"));
  CHECK(host.wait_for([](const auto&, const auto& err) {
    return err.find("it has no certificate, and one is asked for") != std::string::npos;
  }));
  host.signal(SIGTERM);
  host.wait();
}

TEST_CASE("a node is told why it does not trust a rendezvous, and what to do") {
  tls();
  TestAuthority authority;
  const auto own = authority.issue("rdzvd", {.names = "DNS:node1"});
  const Rdzvd rdzvd("127.0.0.1:0", {"--tls-cert=" + own.certificate, "--tls-key=" + own.key});
  const SecretFile secret;
  const auto refusal = [&](const std::vector<std::string>& more) {
    ManyNodes job;
    job.start(with(rdzvd.options("2", kShortLease), more));
    const ChildResult node = std::move(job.wait().front());
    CHECK(node.status == 69);
    return node.err;
  };
  CHECK_THAT(refusal({"--rdzv-tls-ca=" + authority.file()}),
             Contains("cannot be used: its certificate is not for 127.0.0.1, but for DNS:node1"));
  CHECK_THAT(refusal({"--rdzv-tls", "--rdzv-secret-file=" + secret.path()}),
             Contains("it has a certificate, and this node's key comes from the secret"));
  CHECK_THAT(refusal({}), Contains("it encrypts its connections; add --rdzv-tls"));
  const Rdzvd with_key("127.0.0.1:0", {"--tls", "--secret-file=" + secret.path()});
  ManyNodes job;
  job.start(with(with_key.options("2", kShortLease), {"--rdzv-tls-ca=" + authority.file()}));
  CHECK_THAT(job.wait().front().err, Contains("it has no certificate that fits"));
}

TEST_CASE("an rdzvd does not begin with a certificate that is over, nor ask for a pass phrase") {
  tls();
  TestAuthority authority;
  const auto past = authority.issue("past", {.until = "20210203040506Z"});
  const std::string key = authority.with_pass_phrase(authority.issue("node1").key);
  const ChildResult over =
      run({program("rdzvd"), "--tls-cert=" + past.certificate, "--tls-key=" + past.key});
  CHECK(over.status == 2);
  CHECK_THAT(over.err, Contains("expired on Feb  3 04:05:06 2021 GMT: renew it"));
  const ChildResult locked = run({program("rdzvd"), "--listen=127.0.0.1:0",
                                  "--tls-cert=" + authority.path("node1.pem"), "--tls-key=" + key});
  CHECK(locked.status == 2);
  CHECK_THAT(locked.err, Contains("the key has a pass phrase, and nobody is asked for it"));
}

TEST_CASE("a certificate that expires during a job ends no connection, and lets no new one in") {
  tls();
  TestAuthority authority;
  TestAuthority::Wish wish;
  wish.until = certificate_time(8s);
  const auto over_at = Clock::now() + 9s;
  const auto own = authority.issue("rdzvd", wish);
  const Rdzvd rdzvd("127.0.0.1:0", {"--tls-cert=" + own.certificate, "--tls-key=" + own.key});
  ManyNodes job;
  // Not so short that a busy machine loses a node.
  const std::string lease = "keep_alive_interval=1,keep_alive_max_attempt=3,last_call_timeout=1";
  const auto options = with(rdzvd.options("2", lease), {"--rdzv-tls-ca=" + authority.file()});
  for (int i = 0; i < 2; ++i) job.start(options, {"until", job.gate()});
  wait_until_expired(job, over_at);

  const std::string expected = "its certificate (CN=rdzvd) expired on ";
  const std::string remedy = ": renew it, or set this machine's clock";
  const ChildResult asked = run({program("rdzvd"), "--status", "--endpoint=" + rdzvd.endpoint,
                                 "--tls-ca=" + authority.file()});
  CHECK(asked.status == 69);
  CHECK_THAT(asked.err, Contains(expected) && Contains(remedy));
  const ChildResult late = job.start(options).wait();
  job.nodes.pop_back();
  CHECK(late.status == 69);
  CHECK_THAT(late.err, Contains(expected) && Contains(remedy));
  // Longer than a lease: the old connections carry keep-alives on.
  std::this_thread::sleep_for(3500ms);
  job.open_gate();
  succeed_without_restart(job, 4);
}

TEST_CASE(
    "a node with a certificate that has expired meanwhile is told so when it connects again") {
  tls();
  const TempDir state;
  TestAuthority authority;
  const auto own = authority.issue("rdzvd");
  TestAuthority::Wish wish;
  wish.until = certificate_time(6s);
  const auto over_at = Clock::now() + 7s;
  const auto node_files = authority.issue("node", wish);
  const std::vector<std::string> serve{"--state-dir=" + state.path().string(),
                                       "--tls-cert=" + own.certificate, "--tls-key=" + own.key,
                                       "--tls-ca=" + authority.file()};
  auto rdzvd = std::make_unique<Rdzvd>("127.0.0.1:0", serve);
  const std::string endpoint = rdzvd->endpoint;
  ManyNodes job;
  const auto options =
      with(rdzvd->options("2", "last_call_timeout=1"),
           {"--rdzv-tls-ca=" + authority.file(), "--rdzv-tls-cert=" + node_files.certificate,
            "--rdzv-tls-key=" + node_files.key});
  for (int i = 0; i < 2; ++i) job.start(options, {"until", job.gate()});
  wait_until_expired(job, over_at);
  rdzvd->signal(SIGKILL);
  rdzvd->wait();
  rdzvd = std::make_unique<Rdzvd>(endpoint, serve);
  const std::string told = "it does not accept the certificate " + node_files.certificate +
                           " (expired certificate: renew it, or set the clock there)";
  for (Child& node : job.nodes) {
    CHECK(node.wait_for(
        [&](const auto&, const auto& err) { return err.find(told) != std::string::npos; }));
    UNSCOPED_INFO(node.err());
  }
  // Until the end of their lease the workers go on.
  CHECK(job.workers().size() == 4);
  rdzvd->signal(SIGTERM);
  CHECK_THAT(rdzvd->wait().err, Contains("its certificate (CN=node) expired on ") &&
                                    Contains(": renew it, or set this machine's clock"));
  for (const Child& node : job.nodes) node.signal(SIGKILL);
  CHECK(eventually([&] { return processes_with(job.job.mark_entry()).empty(); },
                   std::chrono::seconds(30)));
}
