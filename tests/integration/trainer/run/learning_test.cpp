// What training comes to, in builds that are fast enough to look: accuracies promised in the
// documentation. Each kind of task is learned in seconds here; learning_slow_test.cpp takes longer.
#include <catch2/catch.hpp>

#include "tests/integration/trainer/run/learning_runs.hpp"

using namespace ddprun::test;

TEST_CASE("the default run learns the generated set to at least 95 % held out") {
  only_in_release();
  CHECK(held_out("test_accuracy", {}) >= 0.95);
}

TEST_CASE("generated colour pictures are learned to at least 95 % held out") {
  only_in_release();
  CHECK(held_out("test_accuracy", {"--image-shape", "32x32x3", "--epochs", "3"}) >= 0.95);
}

TEST_CASE("generated sentences are learned to at least 85 % held out in one epoch") {
  only_in_release();
  CHECK(held_out("test_accuracy",
                 {"--model=textclf", "--batch=32", "--schedule=constant", "--epochs=1"}) >= 0.85);
}

TEST_CASE("generated cracks are found with an F1 of at least 50 % after 35 steps") {
  only_in_release();
  CHECK(held_out("test_f1",
                 {"--model=unet16", "--data=generated-cracks", "--batch=2", "--pos-weight=auto",
                  "--schedule=constant", "--lr=0.03", "--max-steps=35", "--epochs=1"}) >= 0.5);
}

TEST_CASE("fp16 with an overflow ends within one point of fp32") {
  only_in_release();
  const std::vector<std::string> common{"--epochs", "3"};
  std::vector<std::string> half = common;
  half.insert(half.end(), {"--precision", "fp16", "--inject-overflow-at", "50"});
  CHECK(held_out("test_accuracy", half) == Approx(held_out("test_accuracy", common)).margin(0.01));
}

TEST_CASE("lenet reaches 88 % on Fashion-MNIST in 3 epochs with 2 workers") {
  only_in_release();
  CHECK(held_out("test_accuracy", {"--data", test_data("fashion-mnist"), "--epochs", "3"}) >= 0.88);
}
