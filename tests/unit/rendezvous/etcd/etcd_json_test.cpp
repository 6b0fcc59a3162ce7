// The bodies of etcd's JSON gateway, as etcd 3.4 sends them.
#include "rendezvous/etcd/etcd_json.hpp"

#include <catch2/catch.hpp>

#include "rendezvous/etcd/etcd_url.hpp"

using namespace ddprun;
using namespace ddprun::rdzv;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Kind = EtcdFault::Kind;

TEST_CASE("base64 of any bytes is read back, and anything else is refused") {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    const std::string text = base64_of(bytes);
    CHECK(text.size() == (bytes.size() + 2) / 3 * 4);
    CHECK(base64_decoded(text) == bytes);
    bytes += static_cast<char>(i * 37);
  }
  CHECK(base64_of("foo!") == "Zm9vIQ==");
  for (const char* wrong : {"Z", "Zm9", "Zm9v=", "====", "Zm9=IQ==", "Z===", "Zm9$",
                            "Zh==", "Zm9vI===", "Zm9\xd2", "\xd2\x85\xa1\xd8"})
    CHECK_FALSE(base64_decoded(wrong).has_value());
}

TEST_CASE("a transaction compares, changes and reads keys") {
  EtcdTxn txn;
  txn.compares = {{EtcdCompare::What::create_revision, "foo", 0},
                  {EtcdCompare::What::mod_revision, "a", 7}};
  txn.changes = {EtcdPut{"foo", "a", 5}, EtcdDelete{"a", "b"}};
  txn.read_otherwise = {"foo"};
  CHECK(etcd_txn_body(txn) ==
        R"({"compare":[{"result":"EQUAL","target":"CREATE","key":"Zm9v","create_revision":"0"},)"
        R"({"result":"EQUAL","target":"MOD","key":"YQ==","mod_revision":"7"}],)"
        R"("success":[{"request_put":{"key":"Zm9v","value":"YQ==","lease":"5"}},)"
        R"({"request_delete_range":{"key":"YQ==","range_end":"Yg=="}}],)"
        R"("failure":[{"request_range":{"key":"Zm9v"}}]})");
  CHECK(etcd_range_body({"foo", "", 3, 9}) == R"({"key":"Zm9v","limit":"3","revision":"9"})");
  CHECK(etcd_grant_body(std::chrono::seconds(5)) == R"({"TTL":"5"})");
  CHECK(etcd_lease_body(-5) == R"({"ID":"-5"})");
  CHECK(etcd_compact_body(12) == R"({"revision":"12"})");
}

TEST_CASE("succeeded is left out when it is false") {
  const auto done = read_etcd_txn(
      R"({"header":{"cluster_id":"1","member_id":"2","revision":"3","raft_term":"2"},"succeeded":true,)"
      R"("responses":[{"response_put":{"header":{"revision":"3"}}}]})",
      1);
  REQUIRE(done.has_value());
  CHECK(done->succeeded);
  CHECK(done->revision == 3);
  const auto not_done = read_etcd_txn(
      R"({"header":{"revision":"2"},"responses":[{"response_range":{"header":{"revision":"2"},)"
      R"("kvs":[{"key":"Zm9v","create_revision":"2","mod_revision":"2","version":"1","value":"YmFy","lease":"77"}],)"
      R"("count":"1"}},{"response_range":{"header":{"revision":"2"}}}]})",
      2);
  REQUIRE(not_done.has_value());
  CHECK_FALSE(not_done->succeeded);
  REQUIRE(not_done->read.size() == 2);
  REQUIRE(not_done->read[0].has_value());
  CHECK(not_done->read[0]->value == "bar");
  CHECK(not_done->read[0]->lease == 77);
  CHECK_FALSE(not_done->read[1].has_value());
}

TEST_CASE("pages and leases are read") {
  const auto page = read_etcd_page(
      R"({"header":{"revision":"9"},"kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"5"}],"more":true})");
  REQUIRE(page.has_value());
  CHECK(page->more);
  CHECK(page->keys.at(0).value.empty());
  CHECK(page->keys.at(0).mod_revision == 5);
  CHECK(read_etcd_page(R"({"header":{"revision":"2"}})")->keys.empty());
  const auto grant = read_etcd_grant(R"({"header":{"revision":"1"},"ID":"411","TTL":"5"})");
  REQUIRE(grant.has_value());
  CHECK(grant->lease == 411);
  CHECK(read_etcd_keep_alive(R"({"result":{"header":{"revision":"1"},"ID":"4","TTL":"5"}})")
            ->count() == 5);
  CHECK(read_etcd_keep_alive("{\"result\":{\"header\":{},\"ID\":\"123\"}}\n")->count() == 0);
}

TEST_CASE("what no etcd answers is refused") {
  for (const char* wrong :
       {"", "<html>", "[]", "{}", R"({"header":{}})", R"({"header":{"revision":"x"}})",
        R"({"header":{"revision":"3"},"kvs":{}})",
        R"({"header":{"revision":"3"},"kvs":[{"key":"!"}]})",
        R"({"header":{"revision":"3"},"more":true})", R"({"header":{"revision":"-3"}})"})
    CHECK_FALSE(read_etcd_page(wrong).has_value());
  CHECK_FALSE(read_etcd_txn(R"({"header":{"revision":"3"}})", 1).has_value());
  CHECK_FALSE(read_etcd_txn(R"({"header":{"revision":"3"},"succeeded":1})", 0).has_value());
  CHECK_FALSE(read_etcd_grant(R"({"ID":"4"})").has_value());
  CHECK_FALSE(read_etcd_keep_alive(R"({"error":{}})").has_value());
}

TEST_CASE("a login to etcd has a user and a password, and gives a token") {
  CHECK(etcd_login_body("ann", "a\"b\\c\n") == R"({"name":"ann","password":"a\"b\\c\u000a"})");
  CHECK(*read_etcd_token(R"({"header":{"revision":"3"},"token":"xYz.7"})") == "xYz.7");
  for (const char* wrong :
       {R"({"header":{}})", R"({"token":""})", R"({"token":"a\r\nHost: b"})", R"({"token":7})"})
    CHECK_FALSE(read_etcd_token(wrong).has_value());
}

TEST_CASE("each fault of etcd is named, with what to do") {
  const auto fault = [](unsigned status, const char* body) {
    return etcd_fault_of(status, body, "h1:2379", {});
  };
  const EtcdFault full = fault(
      429,
      R"({"error":"etcdserver: mvcc: database space exceeded","message":"etcdserver: mvcc: database space exceeded","code":8})");
  CHECK(full.kind == Kind::no_space);
  CHECK_THAT(full.reason, Contains("h1:2379") && Contains("alarm disarm"));
  const EtcdFault user = fault(400, R"({"error":"etcdserver: user name is empty","code":3})");
  CHECK(user.kind == Kind::needs_user);
  CHECK_THAT(user.reason, Contains("--etcd-user=NAME"));
  const EtcdFault stale = fault(401, R"({"error":"etcdserver: invalid auth token","code":16})");
  CHECK(stale.kind == Kind::needs_user);
  const EtcdFault old =
      fault(400, R"({"error":"etcdserver: revision of auth store is old","code":3})");
  CHECK(old.kind == Kind::needs_user);
  const EtcdFault wrong = fault(
      400,
      R"({"error":"etcdserver: authentication failed, invalid user ID or password","code":3})");
  CHECK(wrong.kind == Kind::needs_user);
  CHECK_THAT(wrong.reason, Contains("--etcd-password-file"));
  CHECK_THAT(fault(400, R"({"error":"etcdserver: authentication is not enabled","code":9})").reason,
             Contains("leave out --etcd-user"));
  CHECK_THAT(fault(403, R"({"error":"etcdserver: permission denied","code":7})").reason,
             Contains("role grant-permission"));
  CHECK(fault(404, "404 page not found\n").kind == Kind::too_old);
  CHECK_THAT(fault(404, "").reason, Contains("etcd 3.4"));
  CHECK(fault(400, "Client sent an HTTP request to an HTTPS server.\n").kind == Kind::needs_user);
  EtcdWords words;
  words.user = "etcd_user";
  words.password_file = "etcd_password_file";
  words.where = " in --rdzv-conf";
  words.use_tls = "add protocol=https";
  CHECK_THAT(
      etcd_fault_of(400, R"({"error":"etcdserver: user name is empty","code":3})", "h", words)
          .reason,
      EndsWith("with etcd_user=NAME and etcd_password_file=FILE in --rdzv-conf"));
  CHECK_THAT(etcd_fault_of(400, "sent an HTTP request to an HTTPS server", "h", words).reason,
             EndsWith("asks for TLS: add protocol=https"));
  CHECK(fault(400,
              R"({"message":"etcdserver: mvcc: required revision has been compacted","code":11})")
            .kind == Kind::compacted);
  CHECK(fault(503, R"({"message":"etcdserver: leader changed","code":14})").kind ==
        Kind::unreachable);
  CHECK(fault(429, R"({"message":"etcdserver: too many requests","code":8})").kind ==
        Kind::unreachable);
  CHECK(fault(500, R"({"message":"grpc: received message larger than max","code":8})").kind ==
        Kind::too_large);
  const EtcdFault large = fault(400, R"({"message":"etcdserver: request is too large","code":3})");
  CHECK(large.kind == Kind::refused);
  CHECK_THAT(large.reason, Contains("--max-request-bytes=1572864"));
  const EtcdFault corrupt = fault(500, R"({"error":"etcdserver: corrupt cluster","code":15})");
  CHECK(corrupt.kind == Kind::refused);
  CHECK_THAT(corrupt.reason, Contains("alarm CORRUPT") && Contains("alarm disarm"));
  CHECK(fault(502, "bad gateway").kind == Kind::unreachable);
  CHECK(fault(301, "").kind == Kind::refused);
  CHECK_THAT(fault(400, "{\"message\":\"a\\nb\",\"code\":2}").reason, Contains("a\\nb"));
}

TEST_CASE("a place in etcd names its members and a prefix") {
  const auto place = parse_etcd_place("etcd://h1:2379,h2,[::1]:77/a/b/");
  REQUIRE(place.has_value());
  REQUIRE(place->members.size() == 3);
  CHECK(place->members[1] == Endpoint("h2", 2379));
  CHECK(place->members[2] == Endpoint("::1", 77));
  CHECK(place->prefix == "a/b");
  CHECK(parse_etcd_place("etcd://h")->prefix == "ddprun");
  CHECK_FALSE(parse_etcd_place("etcd://h")->is_encrypted);
  CHECK(parse_etcd_place("etcds://h/a")->is_encrypted);
  CHECK(parse_etcd_place("etcds://h/a")->members[0].host == "h");
  CHECK(parse_etcd_place("etcd://h/")->prefix == "ddprun");
  for (const std::string wrong : {"h1:2379", "etcd://", "etcd://h1,", "etcd://h1:x", "etcd://h1:0",
                                  "etcd://h1/a b", "http://h1"})
    CHECK_FALSE(parse_etcd_place(wrong).has_value());
  CHECK_FALSE(parse_etcd_place("etcd://h/" + std::string(201, 'a')).has_value());
}
