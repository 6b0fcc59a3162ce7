// Jobs that meet over an etcd that is not open to all: it has TLS and asks for certificates, or has
// users. And jobs of nodes that know each other by MUNGE, with a real munged.
#include "tests/integration/launcher/many_nodes_over_etcd.hpp"
#include "tests/support/closed_etcd.hpp"
#include "tests/support/real_munge.hpp"
#include "tests/support/tls.hpp"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// A node of a job with an ID of its own, which never meets another one.
void check_refusal(OverEtcd& job, const std::vector<std::string>& options,
                   const std::string& expected) {
  std::vector<std::string> all{"--rdzv-id=other"};
  all.insert(all.end(), options.begin(), options.end());
  const ChildResult node = job.add("2", all).wait();
  job.nodes.pop_back();
  INFO(node.err);
  CHECK(node.status == 69);
  CHECK_THAT(node.err, Contains(expected));
}

}  // namespace

TEST_CASE("nodes meet over an etcd that speaks TLS and asks for certificates") {
  tls();
  const EtcdCertificates files;
  OverEtcd job(1, files.options(), files.access());
  const std::string conf = "--rdzv-conf=protocol=https,";
  job.add("2", {"--rdzv-backend=etcd-v2", conf + "ca_cert=" + files.authority.file() +
                                              ",ssl_cert=" + files.client.certificate +
                                              ",ssl_cert_key=" + files.client.key});
  job.await_slot(1);
  job.add("2", {conf + "cacert=" + files.authority.file() + ",cert=" + files.client.certificate +
                ",key=" + files.client.key});
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/2 "));
  job.pass_on();  // the next one reads the journal

  // These end at once: nothing that could come within join_timeout would help.
  check_refusal(
      job,
      {"--rdzv-backend=etcd-v2",
       "--rdzv-conf=join_timeout=600,protocol=https,ca_cert=" + files.authority.file()},
      "it asks for a certificate: add ssl_cert=FILE and ssl_cert_key=FILE to --rdzv-conf");
  const TestAuthority other("other");
  check_refusal(job,
                {"--rdzv-conf=join_timeout=600,protocol=https,cacert=" + other.file() +
                 ",cert=" + files.client.certificate + ",key=" + files.client.key},
                "its certificate is signed by CN=authority, which is not in " + other.file());
  check_refusal(job, {"--rdzv-conf=join_timeout=2"}, "add protocol=https to --rdzv-conf");
  job.end_in_order();
}

TEST_CASE("nodes meet over an etcd as a user of it") {
  OverEtcd job;
  give_users(job.etcd, "ann", "short");
  const PasswordFile password("short");
  const PasswordFile wrong("other");
  const auto conf = [](const std::string& name, const PasswordFile& file) {
    return std::vector<std::string>{"--rdzv-conf=etcd_user=" + name +
                                    ",etcd_password_file=" + file.path()};
  };
  for (int i = 0; i < 2; ++i) job.add("2", conf("ann", password));
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/2 "));
  check_refusal(job, conf("ann", wrong),
                "does not know this user or password: correct etcd_user and etcd_password_file in "
                "--rdzv-conf");
  check_refusal(job, {},
                "asks for a user: name one with etcd_user=NAME and etcd_password_file=FILE in "
                "--rdzv-conf");
  job.end_in_order();
}

TEST_CASE("certificates of nodes that meet over etcd have the names in --local-addr") {
  tls();
  TestAuthority authority;
  TestAuthority::Wish wish;
  wish.names = "DNS:localhost";
  const auto files = authority.issue("node", wish);
  OverEtcd job;
  for (int i = 0; i < 2; ++i)
    job.add("2", {"--local-addr=localhost", "--rdzv-tls-ca=" + authority.file(),
                  "--rdzv-tls-cert=" + files.certificate, "--rdzv-tls-key=" + files.key});
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/2 "));
  CHECK_THAT(job.leader(), StartsWith("localhost:"));
  job.end_in_order();
}

TEST_CASE("nodes of one user meet over etcd by MUNGE, whichever of them leads") {
  const RealMunge munge;
  OverEtcd job;
  const std::string times = "keep_alive_interval=3,last_call_timeout=1,munge_socket=";
  for (std::size_t i = 0; i < 3; ++i) {
    job.add("2:3", {"--rdzv-auth=munge", "--rdzv-conf=" + times + munge.socket()});
    job.await_slot(i + 1);
  }
  for (Child& node : job.nodes) REQUIRE(node.wait_for_output("/3 "));
  // The next one that leads has made another secret.
  const std::string old = job.leader();
  const std::size_t index = job.index_of(old);
  job.nodes[index].signal(SIGTERM);
  job.leader_after(old);
  for (std::size_t i = 0; i < 3; ++i)
    if (i != index) REQUIRE(job.nodes[i].wait_for_output("/2 "));
  check_refusal(job, {"--rdzv-auth=munge", "--rdzv-conf=munge_socket=/nowhere"},
                "--rdzv-auth=munge: MUNGE");
  const ChildResult stranger =
      job.add("2:3", {"--rdzv-conf=is_host=0,join_timeout=2,munge_socket=/nowhere"}).wait();
  job.nodes.pop_back();
  CHECK(stranger.status == 69);
  CHECK_THAT(stranger.err, Contains("let") && Contains("MUNGE"));
  job.open_gate();
  const auto nodes = job.wait();
  for (std::size_t i = 0; i < 3; ++i) {
    INFO(nodes[i].out + nodes[i].err);
    CHECK_THAT(nodes[i].err, !Contains("this job has no secret: anybody who can connect"));
    if (i != index) CHECK(nodes[i].status == 0);
  }
  CHECK(job.etcd.keys().empty());
}
