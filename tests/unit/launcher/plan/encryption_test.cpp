// --rdzv-tls in the plan: what it needs, and what it opens.
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "launcher/plan/dry_run.hpp"
#include "tests/unit/launcher/no_encrypter.hpp"
#include "tests/unit/launcher/planned.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::test;

namespace {

Words two_nodes(const std::string& more = "--rdzv-auth=auto") {
  return {"--nnodes=2", "--node-rank=1", "--master-addr=node1", more};
}

Machine machine_with_secret() {
  return Machine().with("HOME", "/h").with_secret("/h/.config/ddprun/secret", "0123456789abcdef");
}

}  // namespace

TEST_CASE("encryption needs a secret and OpenSSL, which is opened for it alone") {
  const auto encrypter = std::make_shared<const NoEncrypter>();
  Machine machine = machine_with_secret();
  machine.tls = std::shared_ptr<const proto::Encrypter>(encrypter);
  CHECK(planned(two_nodes("--rdzv-tls"), machine).agent.rendezvous->encrypter == encrypter);
  CHECK(planned(two_nodes(), machine).agent.rendezvous->encrypter == nullptr);
  CHECK(refused_plan(two_nodes("--rdzv-tls")) ==
        "--rdzv-tls: the key comes from the job's secret, and there is none; make one with ddprun "
        "--make-secret and copy it to each node, or use certificates: --rdzv-tls-ca=FILE");
  CHECK(refused_plan(two_nodes("--rdzv-tls"), machine_with_secret()) ==
        "--rdzv-tls: OpenSSL cannot be used");
  CHECK(planned(two_nodes(), machine_with_secret()).warnings.empty());
}

TEST_CASE("encryption with certificates needs no secret, and its files may cause a warning") {
  const auto encrypter = std::make_shared<const NoEncrypter>();
  Machine machine;
  machine.tls = std::shared_ptr<const proto::Encrypter>(encrypter);
  machine.tls_warning = "the key is open";
  Words words = two_nodes("--rdzv-tls-ca=ca");
  words.insert(words.end(), {"--rdzv-tls-cert=node", "--rdzv-tls-key=node.key"});
  const LaunchPlan plan = planned(words, machine);
  CHECK(plan.agent.rendezvous->encrypter == encrypter);
  CHECK_FALSE(plan.agent.rendezvous->needs_proof);
  CHECK(plan.warnings == Words{"the key is open"});
  CHECK(machine.certificates.authorities.path == "ca");
  CHECK(machine.certificates.certificate.path == "node");
  CHECK(machine.certificates.key.path == "node.key");
  CHECK(machine.certificates.key.option == "--rdzv-tls-key");
  machine.tls = {boost::system::in_place_error, "--rdzv-tls-ca=ca: cannot read it"};
  CHECK(refused_plan(words, machine) == "--rdzv-tls-ca=ca: cannot read it");
}

TEST_CASE("a dry run shows encryption where it is on") {
  Machine machine = machine_with_secret();
  machine.tls = std::shared_ptr<const proto::Encrypter>(std::make_shared<const NoEncrypter>());
  Words words = two_nodes("--rdzv-tls");
  words.push_back("--dry-run");
  CHECK_THAT(dry_run_text(planned(words, machine), {}),
             Catch::Matchers::Contains("encryption   TLS 1.3, of a test\n"));
  const auto json = nlohmann::json::parse(dry_run_json(planned(words, machine), {}));
  CHECK(json["rendezvous"]["encryption"] == "TLS 1.3, of a test");
  CHECK(json["rendezvous"]["auth"] == "required");
  words[3] = "--rdzv-auth=auto";
  CHECK_THAT(dry_run_text(planned(words, machine), {}), !Catch::Matchers::Contains("encryption"));
}
