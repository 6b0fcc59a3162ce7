// Credentials by a real munged: what can be read, by which users, and what is said where it cannot.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "rendezvous/munge/munge.hpp"
#include "tests/support/real_munge.hpp"

using namespace ddprun;
using namespace ddprun::rdzv;
using Catch::Matchers::Contains;

TEST_CASE("what one process puts into a credential, others of its user read, again and again") {
  const test::RealMunge munge;
  const std::string payload("with\0 zeros", 11);
  const auto credential = munge_credentials(munge.socket())->encode(payload);
  REQUIRE(credential.has_value());
  CHECK(credential->starts_with("MUNGE:"));
  const auto reader = munge_credentials(munge.socket());
  for (int i = 0; i < 2; ++i) {
    const auto read = reader->decode(*credential);
    REQUIRE(read.has_value());
    CHECK(*read == payload);
  }
}

TEST_CASE("a credential that is too old for munged is read all the same") {
  const test::RealMunge munge;
  const auto made = test::run({"munge", "--socket=" + munge.socket(), "--ttl=1",
                               "--restrict-uid=" + std::to_string(geteuid()), "--string=payload"});
  if (made.status != 0) test::skip("no program munge: " + made.err);
  const std::string credential = made.out.substr(0, made.out.find('\n'));
  const test::TempDir folder;
  const std::string file = (folder / "credential").string();
  std::ofstream(file) << credential;
  REQUIRE(test::eventually([&] {
    return test::run({"unmunge", "--socket=" + munge.socket(), "--input=" + file})
               .out.find("Expired credential") != std::string::npos;
  }));
  const auto read = munge_credentials(munge.socket())->decode(credential);
  REQUIRE(read.has_value());
  CHECK(*read == "payload");
}

TEST_CASE("a credential that was changed, or is of other machines, is not read") {
  const test::RealMunge munge;
  auto credential = *munge_credentials(munge.socket())->encode("payload");
  const test::RealMunge others('o');
  const auto of_others = munge_credentials(others.socket())->decode(credential);
  REQUIRE_FALSE(of_others.has_value());
  CHECK_THAT(of_others.error().reason, Contains("MUNGE: Invalid credential"));
  char& changed = credential[credential.size() / 2];
  changed = changed == 'A' ? 'B' : 'A';
  CHECK_FALSE(munge_credentials(munge.socket())->decode(credential).has_value());
  CHECK_FALSE(munge_credentials(munge.socket())->decode("no credential").has_value());
  CHECK_FALSE(munge_credentials(munge.socket())->decode("").has_value());
}

TEST_CASE("a credential that another user made for everybody is not taken") {
  const test::RealMunge munge;
  if (geteuid() != 0) test::skip("only root can be another user");
  const auto made =
      test::run({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "munge",
                 "--socket=" + munge.socket(), "--string=ddprun secret 1 of a stranger"});
  if (made.status != 0) test::skip("no setpriv or munge: " + made.err);
  const auto read =
      munge_credentials(munge.socket())->decode(made.out.substr(0, made.out.find('\n')));
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().reason == "user 65534 has made its credential, and this is user 0");
}

TEST_CASE("without a munged the error names its socket") {
  const test::TempDir folder;
  const std::string nowhere = (folder / "no socket").string();
  const auto credentials = munge_credentials(nowhere);
  const auto credential = credentials->encode("payload");
  REQUIRE_FALSE(credential.has_value());
  if (credential.error().reason.starts_with("MUNGE cannot be used (libmunge"))
    test::skip("no libmunge: " + credential.error().reason);
  CHECK_THAT(credential.error().reason, Contains("MUNGE: ") && Contains(nowhere));
}
