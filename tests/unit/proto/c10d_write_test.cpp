// Requests as our client writes them are, byte for byte, those recorded from PyTorch's.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/c10d_requests.hpp"
#include "tests/support/hex.hpp"

using ddprun::test::to_hex;
using ddprun::test::TorchRequestWriter;

namespace {

using Keys = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

template <class Write>
std::string written(Write&& write) {
  std::string bytes;
  TorchRequestWriter writer(bytes, "/");
  write(writer);
  return to_hex(bytes);
}

}  // namespace

TEST_CASE("requests are written as PyTorch writes them") {
  CHECK(written([](TorchRequestWriter& w) { w.validate(); }) == "00cef7853c");
  CHECK(written([](TorchRequestWriter& w) { w.ping(0x12cf); }) == "0dcf120000");
  CHECK(written([](TorchRequestWriter& w) { w.set("k", "v"); }) ==
        "0102000000000000002f6b010000000000000076");
  CHECK(written([](TorchRequestWriter& w) { w.set("e", ""); }) ==
        "0102000000000000002f650000000000000000");
  CHECK(written([](TorchRequestWriter& w) { w.wait(Keys{"k"}); }) ==
        "06010000000000000002000000000000002f6b");
  CHECK(written([](TorchRequestWriter& w) { w.get("k"); }) == "0302000000000000002f6b");
  CHECK(written([](TorchRequestWriter& w) { w.add("n", 5); }) ==
        "0402000000000000002f6e0500000000000000");
  CHECK(written([](TorchRequestWriter& w) { w.add("n", -7); }) ==
        "0402000000000000002f6ef9ffffffffffffff");
  CHECK(written([](TorchRequestWriter& w) { w.compare_set("cs2", "X", "Y"); }) ==
        "0204000000000000002f637332010000000000000058010000000000000059");
  CHECK(written([](TorchRequestWriter& w) { w.key_count(); }) == "07");
  CHECK(written([](TorchRequestWriter& w) { w.delete_key("k"); }) == "0802000000000000002f6b");
  CHECK(written([](TorchRequestWriter& w) {
          w.check(Keys{"n", "e"});
        }) == "05020000000000000002000000000000002f6e02000000000000002f65");
  CHECK(written([](TorchRequestWriter& w) { w.check(Keys{}); }) == "050000000000000000");
  CHECK(written([](TorchRequestWriter& w) { w.cancel_wait(); }) == "0c");
  CHECK(written([](TorchRequestWriter& w) { w.append("ap", "po"); }) ==
        "0903000000000000002f61700200000000000000706f");
  CHECK(written([](TorchRequestWriter& w) {
          w.multi_get(Keys{"m1", "m2"});
        }) == "0a020000000000000003000000000000002f6d3103000000000000002f6d32");
  CHECK(written([](TorchRequestWriter& w) {
          w.multi_set(Pairs{{"m1", "one"}, {"m2", "two"}});
        }) ==
        "0b020000000000000003000000000000002f6d3103000000000000006f6e65"
        "03000000000000002f6d32030000000000000074776f");
  CHECK(written([](TorchRequestWriter& w) { w.barrier("b2", 2); }) ==
        "1203000000000000002f62320200000000000000");
  CHECK(written([](TorchRequestWriter& w) { w.queue_push("q", "x"); }) ==
        "0e02000000000000002f71010000000000000078");
  CHECK(written([](TorchRequestWriter& w) { w.queue_length("q"); }) == "1002000000000000002f71");
  CHECK(written([](TorchRequestWriter& w) { w.queue_pop("q"); }) == "0f02000000000000002f71");
  CHECK(written([](TorchRequestWriter& w) { w.list_keys(); }) == "11");
}

TEST_CASE("the prefix of keys can be left out") {
  std::string bytes;
  TorchRequestWriter(bytes).add("init/", 1);
  CHECK(to_hex(bytes) == "040500000000000000696e69742f0100000000000000");
}
