// Every model, in fp32 and bf16, with dropout where it has it and an odd tail in each epoch: the
// same bits for any world size, and after a kill.
#include <catch2/catch.hpp>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;

namespace {

using Arguments = std::vector<std::string>;

struct Case {
  int side = 0;  // of pictures, in pixels
  Arguments arguments;
};

void check_exact(Arguments arguments, const std::string& score) {
  for (const char* precision : {"fp32", "bf16"}) {
    Arguments all = arguments;
    all.push_back(std::string("--precision=") + precision);
    const std::string one = check_world_sizes(all, score);
    check_same_result(one, train_through_kill(all), score);
  }
}

}  // namespace

TEST_CASE("classifiers of pictures are exact, through a kill, too") {
  const auto one = GENERATE(values<Case>(
      {{28, {"--model=lenet", "--batch=8", "--epochs=2"}},
       {63, {"--model=alexnet", "--batch=20", "--epochs=1", "--optimizer=adamw", "--lr=0.0001"}},
       {12, {"--model=resnet18", "--batch=8", "--epochs=2"}},
       {33, {"--model=resnet18", "--stem=imagenet", "--batch=8", "--epochs=1"}}}));
  const SmallData data(one.side);
  Arguments arguments{"--data", data.path()};
  arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
  check_exact(arguments, "test_accuracy");
}

TEST_CASE("U-Nets are exact, through a kill, too") {
  const auto one = GENERATE(
      values<Case>({{32, {"--model=unet16", "--positive-weight=2"}},
                    {32, {"--model=unet16", "--decoder=deconv"}},
                    {64, {"--model=unet-resnet34"}},
                    {64, {"--model=unet-resnet101", "--decoder=deconv", "--momentum=0"}}}));
  const SmallMasks data(one.side);
  Arguments arguments{"--data", data.path(), "--epochs=2", "--batch=2", "--lr=0.01"};
  arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
  check_exact(arguments, "test_iou");
}

TEST_CASE("a classifier of texts is exact, through a kill, too") {
  check_exact({"--model=textclf", "--sentences=90", "--max-tokens=40", "--batch=8", "--epochs=2",
               "--optimizer=adamw", "--lr=0.001"},
              "test_accuracy");
}
