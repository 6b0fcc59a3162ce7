// By what the nodes of a job know each other: a secret, or MUNGE.
#include <catch2/catch.hpp>
#include <string>

#include <nlohmann/json.hpp>

#include "launcher/plan/dry_run.hpp"
#include "tests/unit/launcher/planned.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::test;

namespace {

Words two_nodes(const Words& more = {}) {
  Words words{"--nnodes=2", "--node-rank=1", "--master-addr=node1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

agent::RendezvousSettings settings_of(const Words& words, const Machine& machine = {}) {
  return *planned(two_nodes(words), machine).agent.rendezvous;
}

const Machine kInSlurm = Machine().with("SLURM_JOB_ID", "7");

}  // namespace

TEST_CASE("a rendezvous shows a secret by MUNGE where it is asked to, and in a Slurm job") {
  CHECK_FALSE(settings_of({}).makes_secret);
  CHECK(settings_of({}, kInSlurm).makes_secret);
  CHECK_FALSE(settings_of({}, kInSlurm).needs_proof);
  CHECK(settings_of({"--rdzv-auth=munge"}).makes_secret);
  CHECK(settings_of({"--rdzv-auth=munge"}).needs_proof);
}

TEST_CASE("candidates over etcd make secrets that MUNGE shows, too") {
  const Words over{"--rdzv-backend=etcd", "--rdzv-endpoint=e", "--rdzv-id=j"};
  Words by_option = over;
  by_option.emplace_back("--rdzv-auth=munge");
  CHECK(settings_of(by_option).makes_secret);
  CHECK(settings_of(by_option).needs_proof);
  CHECK(settings_of(over, kInSlurm).makes_secret);
  CHECK_FALSE(settings_of(over).makes_secret);
}

TEST_CASE("where the job has a secret MUNGE is not used, except by --rdzv-auth=munge") {
  Machine machine = kInSlurm;
  machine.with("HOME", "/h").with_secret("/h/.config/ddprun/secret", "0123456789abcdef");
  CHECK_FALSE(settings_of({}, machine).makes_secret);
  CHECK(settings_of({}, machine).secret == "0123456789abcdef");
  CHECK(settings_of({"--rdzv-auth=munge"}, machine).secret.empty());
  CHECK(refused_plan(two_nodes({"--rdzv-auth=munge", "--rdzv-secret-file=/h/s"})) ==
        "--rdzv-auth=munge and --rdzv-secret-file=/h/s exclude each other: with MUNGE a job needs "
        "no secret; leave one out");
}

TEST_CASE("a node with a secret joins a rendezvous that has MUNGE, except where it must not") {
  Machine machine = kInSlurm;
  machine.with("HOME", "/h").with_secret("/h/.config/ddprun/secret", "0123456789abcdef");
  CHECK(settings_of({}, machine).credentials);
  CHECK_FALSE(settings_of({"--rdzv-auth=required"}, machine).credentials);
}

TEST_CASE("a secret that is gone from its folder is missed") {
  Machine machine;
  machine.with("HOME", "/h");
  CHECK(planned(two_nodes(), machine).warnings.empty());
  machine.files.folder("/h/.config/ddprun");
  CHECK(planned(two_nodes(), machine).warnings ==
        Words{"the secret /h/.config/ddprun/secret is missing, so this job runs without one; copy "
              "it there again, or type rmdir /h/.config/ddprun"});
  CHECK(planned(two_nodes({"--rdzv-auth=munge"}), machine).warnings.empty());
  machine.with_secret("/h/.config/ddprun/secret", "0123456789abcdef");
  CHECK(planned(two_nodes(), machine).warnings.empty());
}

TEST_CASE("the folder of a secret that is gone is named as a shell needs it") {
  Machine machine;
  machine.with("HOME", "/my home").files.folder("/my home/.config/ddprun");
  const auto warnings = planned(two_nodes(), machine).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::Matchers::EndsWith("type rmdir '/my home/.config/ddprun'"));
}

TEST_CASE("a dry run says whether MUNGE proves the nodes' user") {
  const auto text = [](const Words& words, const Machine& machine = {}) {
    Words all = two_nodes(words);
    all.emplace_back("--dry-run");
    return dry_run_text(planned(all, machine), {});
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(text({}), Contains("secret       none\n"));
  CHECK_THAT(text({}, kInSlurm), Contains("MUNGE proves each node's user, where it runs\n"));
  CHECK_THAT(text({"--rdzv-auth=munge"}), Contains("MUNGE proves each node's user\n"));
  const auto json = nlohmann::json::parse(
      dry_run_json(planned(two_nodes({"--rdzv-auth=munge", "--dry-run"})), {}));
  CHECK(json["rendezvous"]["auth"] == "munge");
  CHECK(json["rendezvous"]["munge"] == true);
}
