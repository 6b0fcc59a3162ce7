// What training comes to, in builds that are fast enough to look: accuracies promised in the
// documentation.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/integration/trainer/run/worker_group.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun::test;

namespace {

using Arguments = std::vector<std::string>;

void only_in_release() {
#ifndef NDEBUG
  skip("learning takes minutes without optimization: build the release preset");
#endif
}

double accuracy(const Arguments& arguments, int world_size = 2) {
  Arguments all = arguments;
  all.insert(all.end(), {"--checkpoint-every", "off"});
  return std::stod(field(train({.world_size = world_size, .arguments = all}), "test_accuracy"));
}

}  // namespace

TEST_CASE("the default run learns the generated set to at least 95 % held out") {
  only_in_release();
  CHECK(accuracy({}) >= 0.95);
}

TEST_CASE("generated colour pictures are learned to at least 95 % held out") {
  only_in_release();
  CHECK(accuracy({"--image-shape", "32x32x3", "--epochs", "3"}) >= 0.95);
}

TEST_CASE("fp16 with an overflow ends within one point of fp32") {
  only_in_release();
  const Arguments common{"--epochs", "3"};
  Arguments half = common;
  half.insert(half.end(), {"--precision", "fp16", "--inject-overflow-at", "50"});
  CHECK(accuracy(half) == Approx(accuracy(common)).margin(0.01));
}

TEST_CASE("lenet reaches 88 % on Fashion-MNIST in 3 epochs with 2 workers") {
  only_in_release();
  const char* folder = std::getenv("DDPRUN_TEST_DATA");
  if (folder == nullptr) skip("DDPRUN_TEST_DATA names no folder with fashion-mnist/");
  const std::filesystem::path data = std::filesystem::path(folder) / "fashion-mnist";
  if (!std::filesystem::is_directory(data)) skip(data.string() + " is not there");
  CHECK(accuracy({"--data", data, "--epochs", "3"}) >= 0.88);
}
