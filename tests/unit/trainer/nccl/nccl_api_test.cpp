// Opening the library: what is missing or too old is named. And the variables that it is given.
#include "trainer/nccl/nccl_api.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "tests/support/child.hpp"

namespace ddprun::trainer::nccl {
namespace {

TEST_CASE("the library is opened with its version and the path of its file") {
  const auto opened = Library::open(ddprun::test::helper("libnccl_fake.so"));
  REQUIRE(opened.library != nullptr);
  CHECK(opened.library->version() == 22809);
  CHECK(version_text(opened.library->version()) == "2.28.9");
  CHECK_THAT(opened.library->path(), Catch::Matchers::EndsWith("libnccl_fake.so"));
}

TEST_CASE("the oldest version that is accepted is 2.18.0") {
  setenv("DDPRUN_FAKE_NCCL_VERSION", "21800", 1);
  const auto opened = Library::open(ddprun::test::helper("libnccl_fake.so"));
  unsetenv("DDPRUN_FAKE_NCCL_VERSION");
  REQUIRE(opened.library != nullptr);
  CHECK(version_text(opened.library->version()) == "2.18.0");
}

TEST_CASE("a library that is too old is refused with both versions") {
  setenv("DDPRUN_FAKE_NCCL_VERSION", "21703", 1);
  const auto opened = Library::open(ddprun::test::helper("libnccl_fake.so"));
  unsetenv("DDPRUN_FAKE_NCCL_VERSION");
  CHECK(opened.library == nullptr);
  CHECK_THAT(opened.why, Catch::Contains("2.17.3") && Catch::Contains("2.18.0"));
}

TEST_CASE("a file that is no such library is refused") {
  CHECK_THAT(Library::open("libno-such-nccl.so.9").why, Catch::Contains("libno-such-nccl.so.9"));
  // Any library without its functions.
  CHECK_THAT(Library::open("libm.so.6").why, Catch::Contains("ncclGetVersion"));
}

using Variables = std::vector<std::pair<std::string, std::string>>;

Variables variables(const NcclWishes& wishes,
                    const std::map<std::string, std::string>& there = {}) {
  return nccl_variables(wishes, [&](const char* name) -> const char* {
    const auto found = there.find(name);
    return found == there.end() ? nullptr : found->second.c_str();
  });
}

TEST_CASE("ranks that share a GPU look like hosts of their own") {
  CHECK(variables({.rank = 3, .shares_gpus = true}) == Variables{{"NCCL_HOSTID", "ddprun-rank-3"}});
  CHECK(variables({.rank = 3, .shares_gpus = true}, {{"NCCL_HOSTID", "x"}}).empty());
}

TEST_CASE("sums of a switch, which may differ from call to call, are for --no-deterministic") {
  const NcclWishes wishes{.deterministic = true};
  CHECK(variables(wishes) == Variables{{"NCCL_NVLS_ENABLE", "0"}});
  CHECK(variables({.deterministic = false}).empty());
  CHECK(variables({.order = SumOrder::tree, .deterministic = true}).empty());
  CHECK(variables(wishes, {{"NCCL_ALGO", "NVLS"}}).empty());
  CHECK(variables(wishes, {{"NCCL_NVLS_ENABLE", "1"}}).empty());
}

}  // namespace
}  // namespace ddprun::trainer::nccl
