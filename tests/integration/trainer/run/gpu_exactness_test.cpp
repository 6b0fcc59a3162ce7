// Whole runs with --exact on emulated GPUs, of models with batch norms, attention and masks: the
// same weights for any number of workers, with accumulation. Those of lenet are in
// gpu_training_test.cpp, more of these in gpu_exactness_slow_test.cpp.
#include "tests/integration/trainer/run/gpu_exact_runs.hpp"

using namespace ddprun::test;

TEST_CASE("textclf with --exact has the same weights for any number of GPUs, fp32 and fp16") {
  for (const char* precision : {"fp32", "fp16"}) {
    INFO(precision);
    check_exact(exact_run({"--model=textclf", "--sentences=64", "--max-tokens=40", "--batch=2",
                           "--dropout=0.1", "--max-steps=3", "--precision", precision}),
                {2, 4});
  }
}

TEST_CASE("resnet18 with --exact has the same weights for any number of GPUs") {
  const SmallData data(8);
  // Batch norms over two values, or a usual rate, would amplify the rounding of CPU and GPU.
  const Arguments run = exact_run(
      {"--model=resnet18", "--data", data.path(), "--batch=4", "--max-steps=2", "--lr=1e-6"});
  check_learned_as_on_cpu(run, check_exact(run, {2, 4}));
}

TEST_CASE("texts that stay on the GPU give the weights of those that are sent") {
  check_stays({"--model=textclf", "--sentences=64", "--max-tokens=40", "--shards=4", "--batch=8",
               "--epochs=2", "--max-steps=3"});
}

TEST_CASE("the order in which the streams of two GPUs go on changes no weight, fp16 and windows") {
  GroupOptions options =
      on_gpus({"--model=textclf", "--sentences=64", "--max-tokens=40", "--batch=2", "--shards=4",
               "--precision=fp16", "--max-steps=3", "--no-deterministic", "--checkpoint-every=off"},
              2);
  const std::string first = weights(options);
  options.environment.emplace_back("DDPRUN_EMULATED_SEED", "");
  for (const char* seed : {"100", "200", "300", "400", "500", "600"}) {
    INFO("seed " << seed);
    options.environment.back().second = seed;
    CHECK(weights(options) == first);
  }
}

TEST_CASE("unet16 with --exact has the same weights for one GPU and for two") {
  const SmallMasks data(32);
  const Arguments run =
      exact_run({"--model=unet16", "--data", data.path(), "--batch=1", "--max-steps=2"}, 2);
  check_learned_as_on_cpu(run, check_exact(run, {2}));
}
