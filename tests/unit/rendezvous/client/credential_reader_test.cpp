// What a node makes of the credential of a rendezvous, also where its reader is slow or fails.
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "proto/error.hpp"
#include "rendezvous/client/credential_reader.hpp"
#include "rendezvous/client/service_refusal.hpp"

using namespace ddprun;
using namespace ddprun::rdzv;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using proto::CredentialFailure;

namespace {

/// A credential is "C:" and its payload; those of others begin otherwise.
class FakeCredentials : public proto::Credentials {
 public:
  Text encode(const std::string& payload) override {
    ++encoded;
    if (!failure.reason.empty()) return {boost::system::in_place_error, failure};
    return {boost::system::in_place_value, begin + payload};
  }
  Text decode(const std::string& credential) override {
    ++decoded;
    if (gate.valid()) gate.wait();
    if (!failure.reason.empty()) return {boost::system::in_place_error, failure};
    if (credential.starts_with("C:")) return {boost::system::in_place_value, credential.substr(2)};
    return {boost::system::in_place_error, CredentialFailure{"it belongs to another user's job"}};
  }

  std::string begin = "C:";
  CredentialFailure failure;
  std::shared_future<void> gate;
  std::atomic<int> encoded = 0;
  std::atomic<int> decoded = 0;
};

std::string shown(const std::string& secret) { return "C:" + proto::credential_payload(secret); }

}  // namespace

TEST_CASE("the secret of a credential is read once") {
  const auto credentials = std::make_shared<FakeCredentials>();
  CredentialReader reader(credentials, 10s);
  for (int i = 0; i < 2; ++i) CHECK(reader.secret_of(shown("one")) == "one");
  CHECK(credentials->decoded == 1);
  CHECK(reader.secret_of(shown("two")) == "two");
  CHECK(reader.problem().reason.empty());
}

TEST_CASE("a credential that cannot be read is asked for again, and the reason kept") {
  const auto credentials = std::make_shared<FakeCredentials>();
  CredentialReader reader(credentials, 10s);
  CHECK(reader.secret_of("of others").empty());
  CHECK(reader.problem().reason == "it belongs to another user's job");
  CHECK_FALSE(reader.problem().may_pass);
  CHECK(reader.secret_of("C:something else").empty());
  CHECK(reader.problem().reason == "its MUNGE credential is of another program");
  credentials->failure = {"MUNGE: no socket", true};
  CHECK(reader.secret_of(shown("one")).empty());
  CHECK(reader.problem().may_pass);
  credentials->failure = {};
  CHECK(reader.secret_of(shown("one")) == "one");
  CHECK(reader.problem().reason.empty());
}

TEST_CASE("a credential's reader that does not answer is asked once, and its answer is not lost") {
  const auto credentials = std::make_shared<FakeCredentials>();
  std::promise<void> opened;
  credentials->gate = opened.get_future().share();
  CredentialReader reader(credentials, 0ms);
  for (int i = 0; i < 3; ++i) {
    CHECK(reader.secret_of(shown("one")).empty());
    CHECK(reader.secret_of(shown("two")).empty());
    CHECK(reader.problem().reason == "MUNGE has not answered yet");
    CHECK(reader.problem().may_pass);
  }
  CHECK(credentials->decoded <= 1);
  opened.set_value();
  const auto end = std::chrono::steady_clock::now() + 30s;
  std::string secret;
  while (secret.empty() && std::chrono::steady_clock::now() < end) {
    secret = reader.secret_of(shown("one"));
    std::this_thread::yield();
  }
  CHECK(secret == "one");
  CHECK(credentials->decoded == 1);
}

TEST_CASE("a rendezvous shows its secret only if it can read its own credential") {
  FakeCredentials credentials;
  const auto made = proto::new_shown_secret(credentials);
  REQUIRE(made.has_value());
  CHECK(made->secret.size() == 32);
  CHECK(made->credential == shown(made->secret));
  credentials.begin = "of another user: ";
  const auto unread = proto::new_shown_secret(credentials);
  REQUIRE_FALSE(unread.has_value());
  CHECK_THAT(unread.error().reason,
             Contains("cannot read its own credential (it belongs to another user's job)"));
  credentials.begin = "C:and more: ";
  REQUIRE_FALSE(proto::new_shown_secret(credentials).has_value());
  credentials.failure = {"MUNGE: no socket", true};
  const auto failed = proto::new_shown_secret(credentials);
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().reason == "MUNGE: no socket");
  CHECK(failed.error().may_pass);
}

TEST_CASE("a credential that cannot be read now is no refusal") {
  AttemptEnd end{
      make_error_code(proto::Errc::secret_missing), "", true, {"MUNGE: no socket", true}};
  CHECK(may_pass(end));
  REQUIRE(refusal_for(end).has_value());
  CHECK_THAT(refusal_for(end)->reason, Contains("by MUNGE, but MUNGE: no socket; or give all"));
  end.credential_problem.may_pass = false;
  CHECK_FALSE(may_pass(end));
  end = {make_error_code(proto::Errc::certificate_refused), "", true, {"MUNGE: no socket", true}};
  CHECK_FALSE(may_pass(end));
}
