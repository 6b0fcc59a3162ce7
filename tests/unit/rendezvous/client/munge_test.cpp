// What is made of libmunge's answers, by functions in its place.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

#include "rendezvous/munge/munge.hpp"

using namespace ddprun;
using namespace ddprun::rdzv;

namespace {

constexpr int kNoMemory = 5;

// libmunge's functions have no place for it.
int refused_option = 0;
int decode_result = 0;
int encoded = 0;

MungeContext* create() { return reinterpret_cast<MungeContext*>(&encoded); }
void destroy(MungeContext*) {}
int set(MungeContext*, int option, ...) { return option == refused_option ? kNoMemory : 0; }
const char* context_error(MungeContext*) { return nullptr; }
int encode(char** credential, MungeContext*, const void*, int) {
  ++encoded;
  *credential = strdup("MUNGE:x");
  return 0;
}
int decode(const char*, MungeContext*, void** payload, int* bytes, uid_t* uid, gid_t*) {
  *payload = strdup("payload");
  *bytes = 7;
  *uid = geteuid();
  return decode_result;
}
const char* error_text(int) { return "an error"; }

std::unique_ptr<proto::Credentials> credentials(int refused, int result = 0) {
  refused_option = refused;
  decode_result = result;
  encoded = 0;
  return munge_credentials(
      "/socket", {&create, &destroy, &set, &context_error, &encode, &decode, &error_text});
}

}  // namespace

TEST_CASE("no MUNGE credential is made that other users could read") {
  for (const int option : {kMungeOptionOnlyUser, kMungeOptionSocket}) {
    const auto made = credentials(option)->encode("payload");
    REQUIRE_FALSE(made.has_value());
    CHECK(made.error().reason == "MUNGE: an error");
    CHECK(encoded == 0);
  }
  CHECK(credentials(0)->encode("payload").has_value());
  CHECK_FALSE(credentials(kMungeOptionSocket)->decode("MUNGE:x").has_value());
}

TEST_CASE("a MUNGE credential is read whatever its age, and however often") {
  for (const int result : {0, kMungeExpired, kMungeRewound, kMungeReplayed}) {
    const auto read = credentials(0, result)->decode("MUNGE:x");
    REQUIRE(read.has_value());
    CHECK(*read == "payload");
  }
  const auto of_others = credentials(0, kMungeUnauthorized)->decode("MUNGE:x");
  REQUIRE_FALSE(of_others.has_value());
  CHECK_FALSE(of_others.error().may_pass);
  const auto no_daemon = credentials(0, kMungeSocket)->decode("MUNGE:x");
  REQUIRE_FALSE(no_daemon.has_value());
  CHECK(no_daemon.error().may_pass);
  for (int error = 1; error <= 14; ++error)
    CHECK_FALSE(credentials(0, error)->decode("MUNGE:x").has_value());
}
