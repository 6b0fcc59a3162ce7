// The hello that opens control connections.
#include <catch2/catch.hpp>
#include <string>

#include "proto/error.hpp"
#include "proto/frame.hpp"

using namespace ddprun::proto;

TEST_CASE("a hello tells its side's nonce, what it asks for, and its job") {
  Hello hello{"rendezvous", 1, 2, {"watch"}};
  hello.nonce = Nonce{0xab, 0xcd};
  hello.auth = Authentication::hmac;
  hello.run_id = "job 7";
  const std::string text = encode_hello(hello);
  CHECK(text == R"({"ddprun":"rendezvous","versions":[1,2],"features":["watch"],)"
                R"("nonce":"abcd0000000000000000000000000000","auth":"hmac","run_id":"job 7"})");
  const auto again = decode_hello(text);
  REQUIRE(again.has_value());
  CHECK(encode_hello(*again) == text);
  CHECK(encode_hello({"job", 1, 1, {}}) == R"({"ddprun":"job","versions":[1,1]})");
}

TEST_CASE("hellos that are none are malformed") {
  for (const char* body :
       {"", "{}", "[]", R"({"ddprun":"job"})", R"({"versions":[1,1]})",
        R"({"ddprun":7,"versions":[1,1]})", R"({"ddprun":"job","versions":[1]})",
        R"({"ddprun":"job","versions":[1,1,1]})", R"({"ddprun":"job","versions":[1,1.5]})",
        R"({"ddprun":"job","versions":[1,4294967297]})",
        R"({"ddprun":"job","versions":[1,1],"nonce":"ab"})",
        R"({"ddprun":"job","versions":[1,1],"auth":"magic"})"}) {
    INFO(body);
    CHECK(decode_hello(body).error() == Errc::malformed);
  }
  CHECK(decode_hello(R"({"ddprun":"job","versions":[1,1],"later":{"a":1}})").has_value());
}

TEST_CASE("both sides speak the highest version that they have in common") {
  const auto agreed = [](int min, int max) {
    return agree_on_version({"rendezvous", 2, 3, {}}, {"rendezvous", min, max, {}});
  };
  CHECK(agreed(1, 9).value() == 3);
  CHECK(agreed(1, 2).value() == 2);
  CHECK(agreed(1, 1).error() == Errc::version_mismatch);
  CHECK(agreed(4, 5).error() == Errc::version_mismatch);
  CHECK(agree_on_version({"rendezvous", 1, 1, {}}, {"job", 1, 1, {}}).error() ==
        Errc::version_mismatch);
}

TEST_CASE("a peer with a newer version or an unknown feature is newer") {
  const Hello ours{"rendezvous", 1, 1, {"watch"}};
  CHECK_FALSE(is_newer({"rendezvous", 1, 1, {"watch"}}, ours));
  CHECK_FALSE(is_newer({"rendezvous", 1, 1, {}}, ours));
  CHECK(is_newer({"rendezvous", 1, 2, {"watch"}}, ours));
  CHECK(is_newer({"rendezvous", 1, 1, {"watch", "fence"}}, ours));
}
