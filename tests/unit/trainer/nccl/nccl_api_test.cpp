// Opening the library: what is missing or too old is named.
#include "trainer/nccl/nccl_api.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>

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

}  // namespace
}  // namespace ddprun::trainer::nccl
