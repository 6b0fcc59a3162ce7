// What training on real data comes to: minutes to half an hour each. Accuracies promised in
// docs/benchmarks.md.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/integration/trainer/run/learning_runs.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun::test;

namespace {

const std::chrono::minutes kLimit{60};

/// CIFAR-10's folder for --data: the binary files, or class folders, which are unpacked into
/// `unpacked`.
std::filesystem::path cifar_folder(const TempDir& unpacked) {
  const std::filesystem::path all = test_data();
  const std::filesystem::path binary = all / "cifar-10-batches-bin";
  if (std::filesystem::is_directory(binary)) return binary;
  const std::filesystem::path archive = all / "cifar-10-jpg.tar.gz";
  if (!std::filesystem::exists(archive)) skip(binary.string() + " is not there");
  const ChildResult result =
      run({"/bin/tar", "-xzf", archive.string(), "-C", unpacked.path().string()});
  INFO(result.err);
  REQUIRE(result.status == 0);
  return unpacked / "cifar-10-jpg";
}

}  // namespace

TEST_CASE("alexnet reaches 60 % on CIFAR-10 at 64x64 in 3 epochs") {
  only_in_release();
  const TempDir unpacked;
  const std::string data = cifar_folder(unpacked).string();
  CHECK(held_out("test_accuracy",
                 {"--model=alexnet", "--data", data, "--image-shape=64x64x3", "--optimizer=adamw",
                  "--lr=1e-4", "--schedule=constant", "--batch=32", "--epochs=3"},
                 kLimit) >= 0.60);
}

TEST_CASE("resnet18 reaches 88 % on Fashion-MNIST in one epoch") {
  only_in_release();
  CHECK(held_out(
            "test_accuracy",
            {"--model=resnet18", "--data", test_data("fashion-mnist"), "--batch=32", "--epochs=1"},
            kLimit) >= 0.88);
}

TEST_CASE("textclf with words reaches 75 % on SST-2's dev sentences") {
  only_in_release();
  CHECK(held_out("test_accuracy",
                 {"--model=textclf", "--size=tiny", "--tokens=words", "--data", test_data("sst2"),
                  "--batch=32", "--epochs=4"},
                 kLimit) >= 0.75);
}

TEST_CASE("unet16 reaches an F1 of 80 % on generated cracks of 64x64 in one epoch") {
  only_in_release();
  CHECK(held_out("test_f1",
                 {"--model=unet16", "--data=generated-cracks", "--image-shape=64x64x3", "--batch=2",
                  "--epochs=1"},
                 kLimit) >= 0.80);
}

TEST_CASE("unet-resnet34 finds cracks on CrackForest's photographs") {
  only_in_release();
  CHECK(held_out(
            "test_f1",
            {"--model=unet-resnet34", "--data", test_data("crackforest"), "--image-shape=128x192x3",
             "--optimizer=sgd", "--lr=0.03", "--weight-decay=1e-4", "--decay=all",
             "--schedule=constant", "--pos-weight=auto", "--batch=2", "--epochs=6"},
            kLimit) >= 0.2);
}
