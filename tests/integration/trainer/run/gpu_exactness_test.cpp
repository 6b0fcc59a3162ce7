// A whole run of texts with --exact on emulated GPUs: the same weights for any number of workers.
// That of pictures is in gpu_training_test.cpp.
#include "tests/integration/trainer/run/gpu_runs.hpp"

using namespace ddprun::test;

TEST_CASE("textclf with --exact has the same weights for any number of GPUs, fp32 and fp16") {
  for (const char* precision : {"fp32", "fp16"}) {
    INFO(precision);
    const std::vector<std::string> arguments{
        "--model=textclf",        "--sentences=64", "--max-tokens=40", "--batch=2",
        "--dropout=0.1",          "--exact",        "--shards=4",      "--max-steps=3",
        "--checkpoint-every=off", "--precision",    precision,         "--rendezvous-timeout=3m"};
    const std::string one = weights(on_gpus(arguments));
    for (const int workers : {2, 4}) CHECK(weights(on_gpus(arguments, workers)) == one);
  }
}
