// Jobs that meet over etcd, as they are typed for torchrun.
#include <catch2/catch.hpp>

#include "launcher/plan/dry_run.hpp"
#include "launcher/plan/plan.hpp"
#include "tests/unit/launcher/cluster/variables.hpp"
#include "tests/unit/launcher/no_encrypter.hpp"
#include "tests/unit/launcher/planned.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::test;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using rdzv::HostingWish;

namespace {

/// Its jobs have a secret, so that they are not warned about it.
Machine secret_machine() {
  Machine machine;
  machine.with("HOME", "/home/u").with_secret("/home/u/.config/ddprun/secret", "0123456789abcdef");
  return machine;
}

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("several nodes meet over etcd, below a prefix") {
  const auto meeting = [](const Words& more) {
    const auto plan = planned(joined({"--nnodes=2", "--rdzv-id=j"}, more), secret_machine());
    CHECK(plan.warnings.empty());
    return *plan.agent.rendezvous;
  };
  for (const std::string backend : {"etcd", "etcd-v2"}) {
    const auto settings = meeting({"--rdzv-backend=" + backend, "--rdzv-endpoint=e"});
    REQUIRE(settings.etcd.has_value());
    CHECK(settings.etcd->members == std::vector{Endpoint("e", 2379)});
    CHECK(settings.etcd->prefix == "ddprun");
    CHECK(settings.hosting == HostingWish::not_host);
    CHECK(settings.may_host);
  }
  const auto settings =
      meeting({"--rdzv-backend=etcd", "--rdzv-endpoint=a:1,b,[::1]:3",
               "--rdzv-conf=protocol=http,etcd_prefix=/torchelastic/p2p/,is_host=0"});
  CHECK(settings.etcd->members ==
        std::vector{Endpoint("a", 1), Endpoint("b", 2379), Endpoint("::1", 3)});
  CHECK(settings.etcd->prefix == "torchelastic/p2p");
  CHECK_FALSE(settings.may_host);
}

TEST_CASE("over etcd a node with a secret joins no rendezvous without it") {
  const Words over{"--nnodes=2", "--rdzv-id=j", "--rdzv-backend=etcd", "--rdzv-endpoint=e"};
  const auto with_secret = *planned(over, secret_machine()).agent.rendezvous;
  CHECK_FALSE(with_secret.secret.empty());
  CHECK(with_secret.needs_proof);
  CHECK_FALSE(planned(over).agent.rendezvous->needs_proof);
}

TEST_CASE("what is wrong about a job over etcd is refused or told before it starts") {
  const Words over{"--nnodes=2", "--rdzv-id=j", "--rdzv-backend=etcd"};
  CHECK_THAT(refused_plan(over), Contains("--rdzv-endpoint=HOST:2379"));
  const Words there = joined(over, {"--rdzv-endpoint=e:2379"});
  CHECK_THAT(refused_plan(joined(over, {"--rdzv-endpoint=e:0"})), Contains("etcd has no port 0"));
  CHECK_THAT(refused_plan(joined(there, {"--rdzv-conf=etcd_prefix=a b"})), Contains("blanks"));
  CHECK_THAT(refused_plan(joined(there, {"--chaos=1,service=10"})), Contains("with etcd"));
  const auto warned = [&](const Words& more) {
    return planned(joined(there, more), secret_machine()).warnings;
  };
  CHECK_THAT(warned({"--rdzv-conf=is_host=1"}).at(0), Contains("is_host=1 has no effect"));
  CHECK_THAT(warned({"--master-port=7"}).at(0),
             Contains("have no effect with --rdzv-backend=etcd"));
  CHECK_THAT(warned({"--node-rank=2"}).at(0), Contains("has no effect"));
  CHECK_THAT(planned({"--nnodes=2", "--rdzv-backend=etcd", "--rdzv-endpoint=e"}, secret_machine())
                 .warnings.at(0),
             Contains("no --rdzv-id is given"));
}

TEST_CASE("etcd is asked through TLS with the files that torchrun's keys name") {
  Machine machine = secret_machine();
  machine.tls = std::make_shared<NoEncrypter>();
  const auto access_of = [&](const std::string& backend, const std::string& conf) {
    const auto plan = planned({"--nnodes=2", "--rdzv-id=j", "--rdzv-backend=" + backend,
                               "--rdzv-endpoint=e", "--rdzv-conf=protocol=https" + conf},
                              machine);
    CHECK(plan.warnings.empty());
    const auto& settings = *plan.agent.rendezvous;
    CHECK(settings.etcd->is_encrypted);
    CHECK(settings.encrypter == nullptr);
    CHECK(settings.etcd_access.encrypter == *machine.tls);
    return machine.certificates;
  };
  const auto old = access_of("etcd", ",cacert=/ca,cert=/c,key=/k");
  CHECK(old.authorities.path == "/ca");
  CHECK(old.certificate.path == "/c");
  CHECK(old.key.path == "/k");
  CHECK(old.trusts_system);
  CHECK(old.allows_tls12);
  const auto now = access_of("etcd-v2", ",ca_cert=/ca,ssl_cert=/c,ssl_cert_key=/k");
  CHECK(now.authorities.option == "ca_cert");
  CHECK(now.key.path == "/k");
  CHECK(now.key.option == "ssl_cert_key");
  const auto other = access_of("etcd", ",ca_cert=/ca,cert=/c,ssl_cert=/c,ssl_cert_key=/k");
  CHECK(other.authorities.option == "ca_cert");
  CHECK(other.certificate.option == "cert");
  CHECK(other.key.path == "/k");
  const auto without = access_of("etcd", "");
  CHECK(without.authorities.path.empty());
  CHECK(without.certificate.option == "cert");
  CHECK(without.where == " to --rdzv-conf");
  // As under torchrun, the file of the certificate has the key, too.
  const auto one_file = access_of("etcd-v2", ",ssl_cert=/c");
  CHECK(one_file.key.path == "/c");
  CHECK(one_file.key.option == "ssl_cert");

  machine.tls_warning = "key=/k: other users have access";
  CHECK_THAT(planned({"--nnodes=2", "--rdzv-id=j", "--rdzv-backend=etcd", "--rdzv-endpoint=e",
                      "--rdzv-conf=protocol=HTTPS,cert=/c,key=/k"},
                     machine)
                 .warnings.at(0),
             Equals("--rdzv-conf: key=/k: other users have access"));
}

TEST_CASE("a user of etcd has a password in a file") {
  Machine machine = secret_machine();
  machine.secrets["/p"] = "pass";
  const auto plan_of = [&](const std::string& endpoint) {
    return planned(
        {"--nnodes=2", "--rdzv-id=j", "--rdzv-backend=etcd", "--rdzv-endpoint=" + endpoint,
         "--rdzv-conf=etcd_user=ann,etcd_password_file=/p"},
        machine);
  };
  const auto plan = plan_of("e");
  CHECK_THAT(plan.warnings.at(0), Equals("--rdzv-conf: etcd_user=ann: its password goes to etcd "
                                         "unencrypted; if etcd speaks TLS, add protocol=https"));
  CHECK(plan_of("localhost").warnings.empty());
  const auto& access = plan.agent.rendezvous->etcd_access;
  CHECK(access.user == "ann");
  CHECK(access.password == "pass");
  CHECK(access.encrypter == nullptr);
  CHECK(access.words.user == "etcd_user");
}

TEST_CASE("a refusal of settings for etcd tells which key to add or to leave out") {
  Machine machine = secret_machine();
  const auto refused = [&](const std::string& conf, const std::string& backend = "etcd") {
    return refused_plan({"--nnodes=2", "--rdzv-id=j", "--rdzv-backend=" + backend,
                         "--rdzv-endpoint=e", "--rdzv-conf=" + conf},
                        machine);
  };
  CHECK(refused("protocol=ftp") == "--rdzv-conf: protocol is http or https, not 'ftp'");
  for (const char* conf : {"cacert=/x", "protocol=http,ca_cert=/x", "cert=/x", "cert=/y,key=/x"})
    CHECK_THAT(refused(conf), Contains("is for an etcd with TLS; add protocol=https"));
  CHECK_THAT(refused("protocol=https,key=/k"),
             Contains("key: the certificate") && Contains("add cert=FILE"));
  CHECK_THAT(refused("protocol=https,ssl_cert_key=/k", "etcd-v2"), Contains("add ssl_cert=FILE"));
  CHECK_THAT(refused("protocol=https,cert=/a,ssl_cert=/b"),
             Contains("cert=/a and ssl_cert=/b mean the same; leave one out"));
  machine.tls = {boost::system::in_place_error, "cert=/c: it has no private key"};
  CHECK(refused("protocol=https,cert=/c,key=/k") == "--rdzv-conf: cert=/c: it has no private key");
  CHECK(refused("protocol=https,cert=/c") ==
        "--rdzv-conf: cert=/c: it has no private key; without key=FILE that file must have the "
        "key, too");
  CHECK_THAT(refused("etcd_user=ann"), Contains("add etcd_password_file=FILE"));
  CHECK_THAT(refused("etcd_password_file=/p"), Contains("add etcd_user=NAME"));
  CHECK(refused("etcd_user=ann,etcd_password_file=/p") ==
        "--rdzv-conf: etcd_password_file: cannot read the secret file /p");
}

TEST_CASE("the first node of a step of Slurm does not become a member of etcd") {
  Machine machine;
  machine.environment.merge(slurm_step(0));
  CHECK_THAT(refused_plan({"--rdzv-backend=etcd"}, machine), Contains("--rdzv-endpoint=HOST:2379"));
  const auto plan = planned({"--rdzv-backend=etcd", "--rdzv-endpoint=e"}, machine);
  CHECK(plan.agent.rendezvous->etcd->members == std::vector{Endpoint("e", 2379)});
  CHECK(plan.agent.rendezvous->more_ports.empty());
  CHECK(plan.agent.run_id == "17.4.0");
}

TEST_CASE("a dry run shows which etcd it is and where the job's keys are") {
  const auto plan = planned({"--dry-run", "--nnodes=2", "--rdzv-backend=etcd",
                             "--rdzv-endpoint=a,b", "--rdzv-id=j/1", "--rdzv-conf=etcd_prefix=/x"},
                            secret_machine());
  CHECK_THAT(dry_run_text(plan, {}),
             Contains("etcd://a:2379,b:2379/x\n") &&
                 Contains("one of the job's first three agents; its address stands in etcd, below "
                          "x/runs/j%2F1\n"));
  CHECK_THAT(dry_run_text(plan, {}), Contains("not encrypted, without a user\n"));
  CHECK_THAT(dry_run_json(plan, {}), Contains("\"etcd_prefix\": \"x\"") && Contains("\"b:2379\"") &&
                                         Contains("\"etcd_encryption\": null") &&
                                         Contains("\"etcd_user\": null") &&
                                         Contains("\"hosted_here\": null"));
}

TEST_CASE("a dry run shows how this node gets into etcd, but not the password") {
  Machine machine = secret_machine();
  machine.tls = std::make_shared<NoEncrypter>();
  machine.secrets["/p"] = "pass word";
  const auto plan =
      planned({"--dry-run", "--nnodes=2", "--rdzv-backend=etcd", "--rdzv-endpoint=a", "--rdzv-id=j",
               "--rdzv-conf=protocol=https,etcd_user=ann,etcd_password_file=/p"},
              machine);
  CHECK_THAT(dry_run_text(plan, {}), Contains("etcds://a:2379/ddprun\n") &&
                                         Contains("TLS 1.3, of a test, as user ann\n") &&
                                         !Contains("pass word"));
  CHECK_THAT(dry_run_json(plan, {}), Contains("\"etcd_encryption\": \"TLS 1.3, of a test\"") &&
                                         Contains("\"etcd_user\": \"ann\"") &&
                                         !Contains("pass word"));
}
