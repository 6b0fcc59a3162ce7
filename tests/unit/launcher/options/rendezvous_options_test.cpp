// The options about nodes and where they meet.
#include <catch2/catch.hpp>

#include "launcher/options/options.hpp"

using namespace ddprun::launcher;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

LaunchOptions meeting_options(const std::vector<std::string>& arguments,
                              const Environment& environment = {}) {
  const auto options = parse_launch_options(arguments, environment);
  if (!options) FAIL(options.error().message);
  return *options;
}

std::string meeting_refusal(const std::vector<std::string>& arguments,
                            const Environment& environment = {}) {
  const auto options = parse_launch_options(arguments, environment);
  if (options) FAIL("was accepted");
  CHECK(options.error().exit_code == 2);
  return options.error().message;
}

}  // namespace

TEST_CASE("the nodes of a job are a number or a range") {
  const auto nodes = [](const std::string& text) {
    const NodeCount count = meeting_options({"--nnodes=" + text, "p"}).nodes.count;
    return std::pair(count.min, count.max);
  };
  CHECK(nodes("2") == std::pair(2, 2));
  CHECK(nodes("1:4") == std::pair(1, 4));
  CHECK(nodes("1:1") == std::pair(1, 1));
  CHECK(nodes("100000") == std::pair(100000, 100000));
  CHECK(meeting_options({"p"}).nodes.count.max == 1);
  CHECK(meeting_options({"p"}, {{"PET_NNODES", "2:3"}}).nodes.count.spelling == "PET_NNODES=2:3");
  CHECK(meeting_options({"--nnodes=1:4", "p"}).warnings.empty());
}

TEST_CASE("a number of nodes that no job can have is refused with the right form") {
  for (const std::string bad : {"0", "-1", "x", "1:", ":1", "2:1", "1:1:1", "0:2", ""}) {
    CHECK(meeting_refusal({"--nnodes=" + bad, "p"}) ==
          "--nnodes=" + bad +
              ": expected N or MIN:MAX, 1 or more, as in --nnodes=2 or --nnodes=2:4");
  }
  CHECK(meeting_refusal({"--nnodes=2:100001", "p"}) ==
        "--nnodes=2:100001: at most 100000 is possible");
  CHECK_THAT(meeting_refusal({"p"}, {{"PET_NNODES", "two"}}),
             StartsWith("PET_NNODES=two: expected"));
}

TEST_CASE("a node rank that was not given is not one that was given as 0") {
  CHECK_FALSE(meeting_options({"--nnodes=2", "p"}).nodes.rank.has_value());
  CHECK(meeting_options({"--nnodes=2", "--node-rank=0", "p"}).nodes.rank == 0);
  const auto options = meeting_options({"--nnodes=2", "p"}, {{"PET_NODE_RANK", "1"}});
  CHECK(options.nodes.rank == 1);
  CHECK(options.nodes.rank_spelling == "PET_NODE_RANK=1");
  CHECK_THAT(meeting_refusal({"--node-rank=1", "p"}),
             StartsWith("--node-rank=1: a job of one node has only node rank 0"));
  CHECK_THAT(meeting_refusal({"--nnodes=2", "--node-rank=x", "p"}), Contains("0 or more"));
  CHECK_THAT(meeting_refusal({"--nnodes=2", "--node-rank=99999999999", "p"}), Contains("at most"));
}

TEST_CASE("new nodes are taken in after a delay or never") {
  CHECK(meeting_options({"p"}).nodes.grow_delay == 5s);
  CHECK(meeting_options({"--grow-delay=0.5", "p"}).nodes.grow_delay == 500ms);
  CHECK(meeting_options({"--grow-delay=0", "p"}).nodes.grow_delay == 0ms);
  CHECK_FALSE(meeting_options({"--grow-delay=never", "p"}).nodes.grow_delay.has_value());
  CHECK_THAT(meeting_refusal({"--grow-delay=nevr", "p"}), Contains("did you mean never?"));
}

TEST_CASE("changes of nodes are unlimited unless a number is given") {
  CHECK_FALSE(meeting_options({"p"}).nodes.max_changes.has_value());
  CHECK(meeting_options({"--max-node-changes=0", "p"}).nodes.max_changes == 0);
  CHECK(meeting_options({"--max-node-changes=3", "p"}).nodes.max_changes == 3);
  CHECK_THAT(meeting_refusal({"--max-node-changes=-1", "p"}), Contains("0 or more"));
}

TEST_CASE("a range of ports is two ports in their order") {
  const auto ports = meeting_options({"--port-range=20000:20100", "p"}).store.ports;
  REQUIRE(ports.has_value());
  CHECK(ports->first == 20000);
  CHECK(ports->last == 20100);
  CHECK(meeting_options({"--port-range=7:7", "p"}).store.ports->last == 7);
  CHECK_FALSE(meeting_options({"p"}).store.ports.has_value());
  for (const std::string bad : {"", "20000", "2:1", "0:5", "1:65536", "1-5", "a:b", "1:2:3"}) {
    CHECK(meeting_refusal({"--port-range=" + bad, "p"}) ==
          "--port-range=" + bad +
              ": expected FIRST:LAST, 1 to 65535, as in --port-range=20000:20100");
  }
}

TEST_CASE("the secret's file comes from the option or its variable") {
  CHECK(meeting_options({"--rdzv-secret-file=a", "p"}, {{"DDPRUN_SECRET_FILE", "b"}})
            .rendezvous.secret_file == "a");
  CHECK(meeting_options({"p"}, {{"DDPRUN_SECRET_FILE", "b"}}).rendezvous.secret_file == "b");
  CHECK(meeting_options({"p"}).rendezvous.secret_file.empty());
  CHECK(meeting_refusal({"--rdzv-secret-file=", "p"}) == "--rdzv-secret-file=: expected a file");
  CHECK(meeting_options({"--rdzv-auth=required", "p"}).rendezvous.auth == RdzvAuth::required);
  CHECK(meeting_options({"p"}).rendezvous.auth == RdzvAuth::automatic);
  CHECK(meeting_options({"--rdzv-tls", "p"}).rendezvous.tls);
  CHECK_FALSE(meeting_options({"p"}).rendezvous.tls);
  CHECK_THAT(meeting_refusal({"--rdzv-auth=yes", "p"}),
             EndsWith("expected auto, required or munge"));
}

TEST_CASE("encryption with certificates needs authorities, and a certificate needs its key") {
  const LaunchOptions options =
      meeting_options({"--rdzv-tls-ca=ca", "--rdzv-tls-cert=node", "--rdzv-tls-key=node.key", "p"});
  CHECK(options.rendezvous.tls);
  CHECK(options.rendezvous.tls_ca == "ca");
  CHECK(options.rendezvous.tls_cert == "node");
  CHECK(options.rendezvous.tls_key == "node.key");
  CHECK(meeting_refusal({"--rdzv-tls-ca=", "p"}) == "--rdzv-tls-ca=: expected a file");
  CHECK(meeting_refusal({"--rdzv-tls-ca=c", "--rdzv-tls-cert=a", "p"}) ==
        "--rdzv-tls-cert=a: the key of that certificate is missing; add --rdzv-tls-key=FILE");
  CHECK(meeting_refusal({"--rdzv-tls-ca=c", "--rdzv-tls-key=a", "p"}) ==
        "--rdzv-tls-key=a: the certificate of that key is missing; add --rdzv-tls-cert=FILE");
  CHECK(meeting_refusal({"--rdzv-tls", "--rdzv-tls-cert=a", "--rdzv-tls-key=b", "p"}) ==
        "--rdzv-tls-cert=a: the authorities that this node trusts are missing; add "
        "--rdzv-tls-ca=FILE");
}

TEST_CASE("a secret is made without PROGRAM, where the other options say") {
  CHECK(meeting_options({"--make-secret"}).request == Request::make_secret);
  const auto options = meeting_options({"--make-secret", "--rdzv-secret-file=here"});
  CHECK(options.request == Request::make_secret);
  CHECK(options.rendezvous.secret_file == "here");
  CHECK(options.warnings.empty());
}

TEST_CASE("a secret is not made beside what would be left undone") {
  const std::string refusal = "--make-secret makes the file and starts nothing: leave out ";
  CHECK(meeting_refusal({"--make-secret", "--nnodes=2", "train", "--lr=1"}) == refusal + "train");
  CHECK(meeting_refusal({"--make-secret", "--dry-run"}) == refusal + "--dry-run");
  CHECK(meeting_refusal({"--make-secret", "--explain-policy"}) == refusal + "--explain-policy");
}

TEST_CASE("rendezvous settings are read as times and truths") {
  const auto conf = parse_rdzv_conf("join_timeout=2m,is_host=No,lost_timeout=0.5");
  REQUIRE(conf.has_value());
  CHECK(conf->seconds("join_timeout") == 2min);
  CHECK(conf->seconds("lost_timeout") == 500ms);
  CHECK_FALSE(conf->seconds("timeout").has_value());
  CHECK(conf->boolean("is_host") == false);
  CHECK(parse_rdzv_conf("is_host=T")->boolean("is_host") == true);
  CHECK_FALSE(parse_rdzv_conf("")->boolean("is_host").has_value());
  CHECK(conf->warnings.empty());
}

TEST_CASE("settings of etcd and of a store in a file are those without effect") {
  const auto keys = [](const std::string& text, bool over_etcd = false) {
    return keys_without_effect(*parse_rdzv_conf(text), over_etcd);
  };
  CHECK(keys("protocol=http,etcd_prefix=/a,ca_cert=/b,store_type=file", true) == "store_type");
  CHECK(keys("protocol=https,join_timeout=5,cacert=/a") == "protocol, cacert");
  CHECK(keys("store_type=file") == "store_type");
  CHECK(
      keys("store_type=tcp,is_host=1,heartbeat_timeout=5,close_timeout=3,read_timeout=4").empty());
  CHECK(keys("colour=red").empty());
}
