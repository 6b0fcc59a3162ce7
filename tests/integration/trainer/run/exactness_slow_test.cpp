// Every model, in fp32 and bf16, with dropout where it has it and an odd tail in each epoch: the
// same bits for any world size, and after a kill.
#include <catch2/catch.hpp>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;

namespace {

using Arguments = std::vector<std::string>;

void check_exact(Arguments arguments, const std::string& score) {
  for (const char* precision : {"fp32", "bf16"}) {
    Arguments all = arguments;
    all.push_back(std::string("--precision=") + precision);
    all.emplace_back("--rendezvous-timeout=3m");  // four ranks on a busy machine
    const std::string one = check_world_sizes(all, score);
    WARN(field(one, "compute"));  // whether this CPU stores bf16, or rounds to it
    check_same_result(one, train_through_kill(all), score);
  }
}

/// `side`: of pictures, in pixels.
void check_classifier(int side, const Arguments& more) {
  const SmallData data(side);
  Arguments arguments{"--data", data.path()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  check_exact(arguments, "test_accuracy");
}

void check_unet(int side, const Arguments& more) {
  const SmallMasks data(side);
  Arguments arguments{"--data", data.path(), "--epochs=2", "--batch=2", "--lr=0.01"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  check_exact(arguments, "test_iou");
}

}  // namespace

TEST_CASE("lenet is exact, through a kill, too") {
  check_classifier(28, {"--model=lenet", "--batch=8", "--epochs=2"});
}

TEST_CASE("alexnet is exact, through a kill, too") {
  check_classifier(
      63, {"--model=alexnet", "--batch=20", "--epochs=1", "--optimizer=adamw", "--lr=0.0001"});
}

TEST_CASE("resnet18 with either stem is exact, through a kill, too") {
  check_classifier(12, {"--model=resnet18", "--batch=8", "--epochs=2"});
  check_classifier(33, {"--model=resnet18", "--stem=imagenet", "--batch=8", "--epochs=1"});
}

TEST_CASE("unet16 with either decoder is exact, through a kill, too") {
  check_unet(32, {"--model=unet16", "--pos-weight=2"});
  check_unet(32, {"--model=unet16", "--decoder=deconv"});
}

TEST_CASE("unet-resnet34 is exact, through a kill, too") {
  check_unet(64, {"--model=unet-resnet34"});
}

TEST_CASE("unet-resnet101 is exact, through a kill, too") {
  check_unet(64, {"--model=unet-resnet101", "--decoder=deconv", "--momentum=0"});
}

TEST_CASE("a classifier of texts is exact, through a kill, too") {
  check_exact({"--model=textclf", "--sentences=90", "--max-tokens=40", "--batch=8", "--epochs=2",
               "--optimizer=adamw", "--lr=0.001"},
              "test_accuracy");
}
