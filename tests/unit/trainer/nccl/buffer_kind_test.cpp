// Which way a rank would take to make its memory known to NCCL.
#include "trainer/nccl/buffer_kind.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "tests/support/child.hpp"

namespace ddprun::trainer::nccl {
namespace {

using NcclSwitches = std::map<std::string, std::string>;

std::string best(const std::string& library, const BufferWishes& wishes,
                 const NcclSwitches& there = {}) {
  const auto opened = Library::open(ddprun::test::helper(library));
  REQUIRE(opened.library != nullptr);
  return text_of(best_buffers(wishes, opened.library->call(), [&](const char* name) -> const char* {
    const auto found = there.find(name);
    return found == there.end() ? nullptr : found->second.c_str();
  }));
}

constexpr BufferWishes kAnyOrder{.order = SumOrder::chain, .deterministic = false};
constexpr BufferWishes kSameBits{.order = SumOrder::chain, .deterministic = true};
constexpr BufferWishes kExact{.order = SumOrder::tree, .deterministic = true};

TEST_CASE("NCCL sums in windows only where the bits may change") {
  CHECK(best("libnccl_fake.so", kAnyOrder) == "window");
  CHECK(best("libnccl_fake.so", kSameBits) == "plain");
  CHECK(best("libnccl_fake.so", kExact) == "registered");
}

TEST_CASE("an older NCCL gets what it has functions for") {
  CHECK(best("libnccl_fake_2_26.so", kAnyOrder) == "registered");
  CHECK(best("libnccl_fake_2_26.so", kExact) == "registered");
  for (const BufferWishes& wishes : {kAnyOrder, kSameBits, kExact})
    CHECK(best("libnccl_fake_2_18.so", wishes) == "plain");
}

TEST_CASE("NCCL's own variables switch windows and registered memory off") {
  const NcclSwitches no_windows{{"NCCL_WIN_ENABLE", "0"}};
  CHECK(best("libnccl_fake.so", kAnyOrder, no_windows) == "registered");
  CHECK(best("libnccl_fake.so", kAnyOrder, {{"NCCL_LOCAL_REGISTER", "0"}}) == "window");
  CHECK(best("libnccl_fake.so", kExact, {{"NCCL_LOCAL_REGISTER", "0x0"}}) == "plain");
  for (const char* value : {"1", "", "no"})
    CHECK(best("libnccl_fake.so", kAnyOrder, {{"NCCL_WIN_ENABLE", value}}) == "window");
}

}  // namespace
}  // namespace ddprun::trainer::nccl
