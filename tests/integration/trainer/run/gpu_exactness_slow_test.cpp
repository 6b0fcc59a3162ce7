// More of gpu_exactness_test.cpp: half precision, four workers and masks.
#include "tests/integration/trainer/run/gpu_exact_runs.hpp"

using namespace ddprun::test;

TEST_CASE("resnet18 with --exact in fp16 and bf16 has the same weights for any number of GPUs") {
  const SmallData data(8);
  for (const char* precision : {"fp16", "bf16"}) {
    INFO(precision);
    check_exact(exact_run({"--model=resnet18", "--data", data.path(), "--batch=2", "--max-steps=3",
                           "--precision", precision}),
                {2, 4});
  }
}

TEST_CASE("masks that stay on the GPU give the weights of those that are sent") {
  const SmallMasks data(32);
  check_stays({"--model=unet16", "--data", data.path(), "--shards=2", "--batch=2", "--epochs=2",
               "--max-steps=4"});
}

TEST_CASE("unet16 with --exact has the same weights for any number of GPUs") {
  const SmallMasks data(32);
  for (const char* precision : {"fp32", "fp16"}) {
    INFO(precision);
    check_exact(exact_run({"--model=unet16", "--data", data.path(), "--batch=1", "--max-steps=2",
                           "--precision", precision}),
                {2, 4});
  }
}
