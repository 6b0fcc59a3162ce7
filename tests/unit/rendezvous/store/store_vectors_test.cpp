// The bytes that PyTorch's own client and server exchanged, step by step, answered by our store.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/hex.hpp"
#include "tests/unit/rendezvous/store/pure_store.hpp"

using ddprun::test::from_hex;
using ddprun::test::PureStore;
using ddprun::test::to_hex;
using Why = ddprun::proto::c10d::Refusal::Why;

namespace {

struct Step {
  const char* what;
  const char* request;
  const char* reply;
};

const std::vector<Step> kToday = {
    {"VALIDATE", "00cef7853c", ""},
    {"PING", "0dcf120000", "cf120000"},
    {"SET /k = v", "0102000000000000002f6b010000000000000076", ""},
    {"SET /e = empty", "0102000000000000002f650000000000000000", ""},
    {"WAIT [/k]", "06010000000000000002000000000000002f6b", "00"},
    {"GET /k", "0302000000000000002f6b", "010000000000000076"},
    {"GET /e", "0302000000000000002f65", "0000000000000000"},
    {"ADD /n +5", "0402000000000000002f6e0500000000000000", "0500000000000000"},
    {"ADD /n -7", "0402000000000000002f6ef9ffffffffffffff", "feffffffffffffff"},
    {"GET /n", "0302000000000000002f6e", "02000000000000002d32"},
    {"COMPARE_SET /cs empty -> A", "0203000000000000002f63730000000000000000010000000000000041",
     "010000000000000041"},
    {"COMPARE_SET /cs A -> B", "0203000000000000002f6373010000000000000041010000000000000042",
     "010000000000000042"},
    {"COMPARE_SET /cs A -> C", "0203000000000000002f6373010000000000000041010000000000000043",
     "010000000000000042"},
    {"COMPARE_SET /cs2 X -> Y", "0204000000000000002f637332010000000000000058010000000000000059",
     "010000000000000058"},
    {"GETNUMKEYS", "07", "0400000000000000"},
    {"DELETE_KEY /k", "0802000000000000002f6b", "0100000000000000"},
    {"DELETE_KEY /k again", "0802000000000000002f6b", "0000000000000000"},
    {"CHECK [/n, /e]", "05020000000000000002000000000000002f6e02000000000000002f65", "00"},
    {"CHECK [/zz]", "05010000000000000003000000000000002f7a7a", "01"},
    {"CHECK []", "050000000000000000", "00"},
    {"WAIT [/zz]", "06010000000000000003000000000000002f7a7a", ""},
    {"CANCEL_WAIT", "0c", "01"},
    {"APPEND /ap po", "0903000000000000002f61700200000000000000706f", ""},
    {"APPEND /ap tato", "0903000000000000002f617004000000000000007461746f", ""},
    {"GET /ap", "0303000000000000002f6170", "0600000000000000706f7461746f"},
    {"MULTI_SET /m1=one /m2=two",
     "0b020000000000000003000000000000002f6d3103000000000000006f6e6503000000000000002f6d32030000000"
     "000000074776f",
     ""},
    {"MULTI_GET /m1 /m2", "0a020000000000000003000000000000002f6d3103000000000000002f6d32",
     "03000000000000006f6e65030000000000000074776f"},
    {"ADD init/ +1", "040500000000000000696e69742f0100000000000000", "0100000000000000"},
    {"BARRIER /b1 of 1", "1203000000000000002f62310100000000000000", "00"},
    {"BARRIER /b2 of 2, first", "1203000000000000002f62320200000000000000", ""},
    {"CANCEL_WAIT", "0c", "01"},
    {"BARRIER /b2 of 2, next", "1203000000000000002f62320200000000000000", "00"},
    {"QUEUE_PUSH /q x", "0e02000000000000002f71010000000000000078", ""},
    {"QUEUE_LEN /q", "1002000000000000002f71", "0100000000000000"},
    {"QUEUE_POP /q", "0f02000000000000002f71", "0100000000000000010000000000000078"},
    {"QUEUE_POP /q, empty", "0f02000000000000002f71", "0000000000000000"},
};

const std::vector<Step> kOld = {
    {"ADD init/ +1", "030500000000000000696e69742f0100000000000000", "0100000000000000"},
    {"SET /k = v", "0002000000000000002f6b010000000000000076", ""},
    {"WAIT [/k]", "05010000000000000002000000000000002f6b", "00"},
    {"GET /k", "0202000000000000002f6b", "010000000000000076"},
    {"ADD /n +5", "0302000000000000002f6e0500000000000000", "0500000000000000"},
    {"COMPARE_SET /cs empty -> A", "0103000000000000002f63730000000000000000010000000000000041",
     "010000000000000041"},
    {"GETNUMKEYS", "06", "0400000000000000"},
    {"DELETE_KEY /k", "0802000000000000002f6b", "0100000000000000"},
};

void replay(PureStore& store, const std::vector<Step>& steps, bool byte_by_byte) {
  for (const Step& step : steps) {
    INFO(step.what);
    const std::string bytes = from_hex(step.request);
    if (byte_by_byte) {
      for (const char& byte : bytes) store.send(0, {&byte, 1});
    } else {
      store.send(0, bytes);
    }
    CHECK(to_hex(store.received(0)) == step.reply);
    CHECK(store.kept_bytes(0) == 0);
  }
  CHECK(store.closed(0) == Why::none);
}

Why refused(const std::string& hex, bool accept_old_dialect = false) {
  ddprun::rdzv::StoreSettings settings;
  settings.accept_old_dialect = accept_old_dialect;
  PureStore store(settings);
  store.send(0, from_hex(hex));
  CHECK(store.received(0).empty());
  return store.closed(0);
}

}  // namespace

TEST_CASE("today's exchanges are answered as PyTorch answers them") {
  const bool byte_by_byte = GENERATE(false, true);
  PureStore store;
  replay(store, kToday, byte_by_byte);
}

TEST_CASE("requests in one segment get the replies of requests one by one") {
  PureStore store;
  std::string requests;
  std::string replies;
  for (const Step& step : kToday) {
    requests += from_hex(step.request);
    replies += step.reply;
  }
  store.send(0, requests);
  CHECK(to_hex(store.received(0)) == replies);
}

TEST_CASE("LIST_KEYS gives every raw key") {
  PureStore store;
  store.connect(0);
  store.send(0, from_hex("0102000000000000002f610000000000000000"));
  store.send(0, from_hex("040500000000000000696e69742f0100000000000000"));
  CHECK(store.received(0).size() == 8);
  store.send(0, from_hex("11"));
  const std::string reply = to_hex(store.received(0));
  const std::string a = "02000000000000002f61";
  const std::string init = "0500000000000000696e69742f";
  CHECK((reply == "0200000000000000" + a + init || reply == "0200000000000000" + init + a));
}

TEST_CASE("a breach of the protocol closes the connection without a byte") {
  const std::string hello = "00cef7853c";
  const bool old = GENERATE(false, true);
  CHECK(refused("0000000000", old) == Why::wrong_magic);
  CHECK(refused("00cff7853c", old) == Why::wrong_magic);
  CHECK(refused("07", old) == (old ? Why::watch_key : Why::not_validated));
  CHECK(refused("47455420", old) == Why::not_validated);
  CHECK(refused(hello + "13", old) == Why::unknown_code);
  CHECK(refused(hello + "ff", old) == Why::unknown_code);
  CHECK(refused(hello + hello, old) == Why::validated_twice);
  CHECK(refused(hello + "010120000000000000", old) == Why::key_too_long);
  CHECK(refused(hello + "01ffffffffffffffff", old) == Why::key_too_long);
  CHECK(refused(hello + "0102000000000000002f6b0100800000000000", old) == Why::value_too_long);
  CHECK(refused(hello + "050100020000000000", old) == Why::list_too_long);
  CHECK(refused(hello + "0102000000000000002f780300000000000000616263" +
                    "0402000000000000002f780100000000000000",
                old) == Why::not_a_number);
}

TEST_CASE("both dialects meet in one store that tells them apart by their first bytes") {
  PureStore store;
  store.connect(0);
  store.send(0, from_hex("0102000000000000002f6b010000000000000076"));
  store.send(1, from_hex("0202000000000000002f6b"));
  CHECK(to_hex(store.received(1)) == "010000000000000076");
  store.send(1, from_hex("05010000000000000002000000000000002f77"));
  CHECK(store.received(1).empty());
  store.send(0, from_hex("0102000000000000002f77010000000000000078"));
  CHECK(to_hex(store.received(1)) == "00");
}

TEST_CASE("the exchanges of PyTorch 1.13 are answered where that dialect is accepted") {
  const bool byte_by_byte = GENERATE(false, true);
  ddprun::rdzv::StoreSettings settings;
  settings.accept_old_dialect = true;
  PureStore store(settings);
  replay(store, kOld, byte_by_byte);
}

TEST_CASE(
    "an old client that asks while it waits is closed, for its replies would be out of step") {
  ddprun::rdzv::StoreSettings settings;
  settings.accept_old_dialect = true;
  PureStore store(settings);
  store.send(0, from_hex("05010000000000000002000000000000002f6b"));
  store.send(0, from_hex("06"));
  CHECK(store.closed(0) == Why::request_while_waiting);
}
