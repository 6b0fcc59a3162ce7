// The c10d request parser: every request, every refusal, and any split of the bytes.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proto/c10d.hpp"
#include "tests/support/c10d_requests.hpp"
#include "tests/support/hex.hpp"

using namespace ddprun::proto::c10d;
using ddprun::test::from_hex;

namespace {

const std::string kHello = from_hex("00cef7853c");

/// A parser behind its handshake.
RequestParser validated(const Limits& limits = {}) {
  RequestParser parser;
  Request request;
  REQUIRE(parser.next(kHello, limits, request) == ParseStatus::complete);
  return parser;
}

Request parse(const std::string& bytes) {
  RequestParser parser = validated();
  Request request;
  REQUIRE(parser.next(bytes, {}, request) == ParseStatus::complete);
  CHECK(request.size == bytes.size());
  return request;
}

Refusal::Why refusal(const std::string& hex, const Limits& limits = {}) {
  RequestParser parser = validated(limits);
  Request request;
  REQUIRE(parser.next(from_hex(hex), limits, request) == ParseStatus::refused);
  return parser.refusal().why;
}

Refusal::Why first_refusal(const std::string& hex) {
  RequestParser parser;
  Request request;
  REQUIRE(parser.next(from_hex(hex), {}, request) == ParseStatus::refused);
  return parser.refusal().why;
}

std::vector<std::string> elements(const List& list) {
  std::vector<std::string> result;
  for (const std::string_view element : list) result.emplace_back(element);
  return result;
}

}  // namespace

TEST_CASE("a connection begins with VALIDATE and its magic number") {
  RequestParser parser;
  Request request;
  REQUIRE(parser.next(kHello, {}, request) == ParseStatus::complete);
  CHECK(request.code == Code::validate);
  CHECK(request.size == 5);
}

TEST_CASE("VALIDATE may come byte by byte") {
  RequestParser parser;
  Request request;
  for (std::size_t length = 0; length < kHello.size(); ++length) {
    REQUIRE(parser.next(kHello.substr(0, length), {}, request) == ParseStatus::incomplete);
    CHECK(parser.bytes_needed() == length + 1);
  }
  CHECK(parser.next(kHello, {}, request) == ParseStatus::complete);
}

TEST_CASE("a stream without VALIDATE is refused at its first wrong byte") {
  CHECK(first_refusal("07") == Refusal::Why::not_validated);
  CHECK(first_refusal("47") == Refusal::Why::not_validated);  // the G of an HTTP GET
  CHECK(first_refusal("0000") == Refusal::Why::wrong_magic);
  CHECK(first_refusal("0000000000") == Refusal::Why::wrong_magic);
  CHECK(first_refusal("00cff7853c") == Refusal::Why::wrong_magic);
  CHECK(first_refusal("00cef7853d") == Refusal::Why::wrong_magic);
}

TEST_CASE("every request is read field by field") {
  CHECK(parse(from_hex("0dcf120000")).number == 0x12cf);

  const std::string set = from_hex("0102000000000000002f6b010000000000000076");
  CHECK(parse(set).code == Code::set);
  CHECK(parse(set).key == "/k");
  CHECK(parse(set).value == "v");

  const std::string compare =
      from_hex("0204000000000000002f637332010000000000000058010000000000000059");
  CHECK(parse(compare).code == Code::compare_set);
  CHECK(parse(compare).key == "/cs2");
  CHECK(parse(compare).value == "X");
  CHECK(parse(compare).desired == "Y");

  const std::string add = from_hex("0402000000000000002f6ef9ffffffffffffff");
  CHECK(parse(add).code == Code::add);
  CHECK(parse(add).number == -7);

  const std::string check = from_hex("05020000000000000002000000000000002f6e02000000000000002f65");
  CHECK(parse(check).code == Code::check);
  CHECK(elements(parse(check).list) == std::vector<std::string>{"/n", "/e"});

  const std::string pairs = from_hex(
      "0b020000000000000003000000000000002f6d3103000000000000006f6e65"
      "03000000000000002f6d32030000000000000074776f");
  CHECK(parse(pairs).code == Code::multi_set);
  CHECK(elements(parse(pairs).list) == std::vector<std::string>{"/m1", "one", "/m2", "two"});

  const std::string barrier = from_hex("1203000000000000002f62310200000000000000");
  CHECK(parse(barrier).code == Code::barrier);
  CHECK(parse(barrier).key == "/b1");
  CHECK(parse(barrier).number == 2);

  CHECK(parse(from_hex("0302000000000000002f6b")).code == Code::get);
  CHECK(parse(from_hex("06010000000000000002000000000000002f6b")).code == Code::wait);
  CHECK(parse(from_hex("07")).code == Code::key_count);
  CHECK(parse(from_hex("0802000000000000002f6b")).code == Code::delete_key);
  CHECK(parse(from_hex("0903000000000000002f61700200000000000000706f")).code == Code::append);
  CHECK(parse(from_hex("0a010000000000000003000000000000002f6d31")).code == Code::multi_get);
  CHECK(parse(from_hex("0c")).code == Code::cancel_wait);
  CHECK(parse(from_hex("0e02000000000000002f71010000000000000078")).code == Code::queue_push);
  CHECK(parse(from_hex("0f02000000000000002f71")).code == Code::queue_pop);
  CHECK(parse(from_hex("1002000000000000002f71")).code == Code::queue_length);
  CHECK(parse(from_hex("11")).code == Code::list_keys);
}

TEST_CASE("keys and values may hold any byte, and none") {
  const std::string set = from_hex("0103000000000000002f000a0000000000000000");
  const Request request = parse(set);
  CHECK(request.key == std::string_view("/\0\n", 3));
  CHECK(request.value.empty());
  CHECK(elements(parse(from_hex("050000000000000000")).list).empty());
}

TEST_CASE("a client is refused for an unknown code or a second VALIDATE") {
  CHECK(refusal("13") == Refusal::Why::unknown_code);
  CHECK(refusal("ff") == Refusal::Why::unknown_code);
  CHECK(refusal("00cef7853c") == Refusal::Why::validated_twice);
}

TEST_CASE("a length over its limit is refused before anything behind it has come") {
  CHECK(refusal("010120000000000000") == Refusal::Why::key_too_long);
  CHECK(refusal("01ffffffffffffffff") == Refusal::Why::key_too_long);
  CHECK(refusal("050100000000000000"
                "0120000000000000") == Refusal::Why::key_too_long);
  CHECK(refusal("0102000000000000002f6b0100800000000000") == Refusal::Why::value_too_long);
  CHECK(refusal("0102000000000000002f6b0000000000000080") == Refusal::Why::value_too_long);
  CHECK(refusal("0203000000000000002f6373"
                "0000000000000000"
                "0100800000000000") == Refusal::Why::value_too_long);
  CHECK(refusal("0b0100000000000000"
                "02000000000000002f6b"
                "0100800000000000") == Refusal::Why::value_too_long);
  for (const char* code : {"05", "06", "0a", "0b"}) {
    CHECK(refusal(code + std::string("0100020000000000")) == Refusal::Why::list_too_long);
  }
}

TEST_CASE("lengths at their limits are accepted") {
  RequestParser parser = validated();
  Request request;
  std::string bytes;
  ddprun::test::TorchRequestWriter(bytes).compare_set(
      std::string(8192, 'k'), std::string(8 << 20, 'e'), std::string(8 << 20, 'd'));
  CHECK(parser.next(bytes, {}, request) == ParseStatus::complete);
  bytes.clear();
  ddprun::test::TorchRequestWriter(bytes).check(std::vector<std::string>(131072));
  CHECK(parser.next(bytes, {}, request) == ParseStatus::complete);
}

TEST_CASE("a request as a whole has a limit too") {
  Limits limits;
  limits.request_bytes_max = 40;
  RequestParser parser = validated(limits);
  Request request;
  std::string bytes;
  ddprun::test::TorchRequestWriter(bytes).check(
      std::vector<std::string>{"0123", "4567"});  // 33 bytes
  CHECK(parser.next(bytes, limits, request) == ParseStatus::complete);
  bytes.clear();
  ddprun::test::TorchRequestWriter(bytes).check(std::vector<std::string>{"0123", "4567", "89"});
  CHECK(parser.next(bytes, limits, request) == ParseStatus::refused);
  CHECK(parser.refusal().why == Refusal::Why::request_too_long);
}

TEST_CASE(
    "an incomplete request gives the number of missing bytes, and continues where it stopped") {
  std::string bytes;
  ddprun::test::TorchRequestWriter(bytes).multi_set(
      std::vector<std::pair<std::string, std::string>>{{"/a", "one"}, {"/b", "two"}});
  RequestParser parser = validated();
  Request request;
  std::size_t looks = 0;
  for (std::size_t length = 1; length < bytes.size(); ++length) {
    if (length < parser.bytes_needed()) continue;
    ++looks;
    REQUIRE(parser.next(std::string_view(bytes).substr(0, length), {}, request) ==
            ParseStatus::incomplete);
    CHECK(parser.bytes_needed() > length);
    CHECK(parser.bytes_needed() <= bytes.size());
  }
  CHECK(looks == 9);  // one for the code, one for the count, two for each field but the last
  REQUIRE(parser.next(bytes, {}, request) == ParseStatus::complete);
  CHECK(elements(request.list) == std::vector<std::string>{"/a", "one", "/b", "two"});
  CHECK(parser.bytes_needed() == 1);
}

TEST_CASE("the old dialect is recognised by a missing VALIDATE") {
  const auto first = [](const std::string& hex) {
    RequestParser parser(true);
    Request request;
    REQUIRE(parser.next(from_hex(hex), {}, request) == ParseStatus::complete);
    CHECK(request.old_dialect == (hex != "00cef7853c"));
    return request.code;
  };
  CHECK(first("00cef7853c") == Code::validate);
  CHECK(first("030500000000000000696e69742f0100000000000000") == Code::add);
  CHECK(first("0002000000000000002f6b010000000000000076") == Code::set);
  CHECK(first("05010000000000000002000000000000002f6b") == Code::wait);
  CHECK(first("0202000000000000002f6b") == Code::get);
  CHECK(first("0103000000000000002f63730000000000000000010000000000000041") == Code::compare_set);
  CHECK(first("06") == Code::key_count);
  CHECK(first("0802000000000000002f6b") == Code::delete_key);
  CHECK(first("04010000000000000002000000000000002f6b") == Code::check);
}

TEST_CASE("the old dialect has no codes beyond its own") {
  const auto refused = [](const std::string& hex, bool first) {
    RequestParser parser(true);
    Request request;
    if (!first) REQUIRE(parser.next(from_hex("06"), {}, request) == ParseStatus::complete);
    CHECK(parser.greeted() == !first);
    REQUIRE(parser.next(from_hex(hex), {}, request) == ParseStatus::refused);
    return parser.refusal().why;
  };
  for (const char* hex : {"09", "0c", "47"}) {
    CHECK(refused(hex, true) == Refusal::Why::not_validated);
    CHECK(refused(hex, false) == Refusal::Why::unknown_code);
  }
  CHECK(refused("07", true) == Refusal::Why::watch_key);
  CHECK(refused("07", false) == Refusal::Why::watch_key);
}

TEST_CASE("a magic number that is wrong shows where both dialects are spoken") {
  for (const char* hex :
       {"0000000000", "00cff7853c", "00cef7853d", "00cefe", "0001200000", "000000000000000000"}) {
    INFO(hex);
    const std::string bytes = from_hex(hex);
    RequestParser parser(true);
    Request request;
    REQUIRE(parser.next(bytes, {}, request) == ParseStatus::refused);
    CHECK(parser.refusal().why == Refusal::Why::wrong_magic);
    CHECK_FALSE(parser.greeted());
  }
}

TEST_CASE("half a handshake is waited for in either dialect") {
  for (const char* hex : {"00", "00ce", "00cef7", "00cef785", "0002", "000200", "00020000",
                          "0002000000", "00020000000000"}) {
    INFO(hex);
    RequestParser parser(true);
    Request request;
    CHECK(parser.next(from_hex(hex), {}, request) == ParseStatus::incomplete);
    CHECK_FALSE(parser.greeted());
  }
}

TEST_CASE("a refusal is explained with the number that was wrong") {
  CHECK(explain({Refusal::Why::unknown_code, 19, 18}) ==
        "request code 19 is not known: worker's PyTorch is newer than this ddprun: "
        "--worker-store=rank0");
  CHECK(explain({Refusal::Why::unknown_code, 9, 8}).find("1.13") != std::string::npos);
  CHECK(explain({Refusal::Why::handshake_too_late, 0, 1500}) ==
        "it sent no whole request within 1.5 s");
  CHECK(explain({Refusal::Why::other_user, 1001, 1000}).find("--store-allow-uid=1001") !=
        std::string::npos);
  CHECK(explain({Refusal::Why::key_too_long, 8193, 8192}) ==
        "a key length of 8193 is over the limit of 8192");
}
