// A run with numbers that have become infs or nans ends, says where, and leaves good checkpoints
// alone.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

/// With a rate at which the loss grows until it is no number.
std::vector<std::string> diverging(std::vector<std::string> arguments, const TempDir& out) {
  for (const char* more : {"--lr", "1000", "--checkpoint-every", "1", "--out"})
    arguments.emplace_back(more);
  arguments.push_back(out.path().string());
  return arguments;
}

/// All numbers of a checkpoint's weights: behind 8 bytes, which tell the length of the header, and
/// the header.
std::vector<float> weights_in(const fs::path& checkpoint) {
  std::string bytes = text_of(checkpoint / "model.safetensors");
  std::uint64_t header = 0;
  REQUIRE(bytes.size() > sizeof header);
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes.erase(0, sizeof header + header);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::vector<ChildResult> run_group(int world_size, std::vector<std::string> arguments) {
  GroupOptions options;
  options.world_size = world_size;
  options.arguments = std::move(arguments);
  return WorkerGroup(options).wait();
}

/// Rank 0 names the reason in its last line, the others are victims.
void check_ends(const std::vector<ChildResult>& results, const std::string& reason) {
  INFO(results[0].err);
  CHECK(results[0].status == 1);
  CHECK(results[0].out.empty());  // no final line
  const std::size_t end = results[0].err.rfind("train: error: ");
  REQUIRE(end != std::string::npos);
  CHECK_THAT(results[0].err.substr(end), Contains(reason));
  for (std::size_t rank = 1; rank < results.size(); ++rank) {
    CHECK(results[rank].status == 75);
    CHECK_THAT(results[rank].err, Contains("train: error: ") && Contains("rank 0"));
  }
}

/// Weights with which a step overflows that has a finite loss.
struct LargeWeights {
  SmallData data;
  TempDir directory;
  fs::path file = directory / "large.safetensors";

  LargeWeights() {
    const fs::path out = directory / "out";
    train({.arguments = three_epochs(data, {"--max-steps", "1", "--out", out})});
    fs::copy_file(out / "latest" / "model.safetensors", file);
  }
  void fill(const std::string& name, float value) const { fill_tensor(file, file, name, value); }
  [[nodiscard]] std::vector<std::string> arguments(std::vector<std::string> more) const {
    more.insert(more.end(), {"--init-from", file});
    return three_epochs(data, more);
  }
};

}  // namespace

TEST_CASE("a loss that is not finite ends the run: rank 0 says where, the others are victims") {
  const SmallData data;
  std::string line;
  for (const int world_size : {1, 2, 4}) {
    const TempDir out;
    const auto results = run_group(world_size, diverging(three_epochs(data), out));
    INFO(results[0].err);
    CHECK(results[0].status == 1);
    for (std::size_t rank = 1; rank < results.size(); ++rank) {
      CHECK(results[rank].status == 75);
      CHECK_THAT(results[rank].err, Contains("rank 0"));
    }
    CHECK_THAT(results[0].err, Contains("the loss is not finite in step ") &&
                                   Contains(" of the training set; the shard's samples are ") &&
                                   Contains("): lower --lr") &&
                                   Contains("the last checkpoint is " + out.path().string()));
    // Step, shard and sample are the same for any number of workers.
    const std::size_t begin = results[0].err.find("the loss");
    const std::string place = results[0].err.substr(begin, results[0].err.find(')') - begin);
    if (line.empty()) line = place;
    CHECK(place == line);
    const std::vector<float> weights = weights_in(out / "latest");
    CHECK(weights.size() > 100'000);
    CHECK(
        std::all_of(weights.begin(), weights.end(), [](float one) { return std::isfinite(one); }));
  }
}

TEST_CASE("fp16 gives up when steps overflow with the smallest loss scale") {
  const TempDir out;
  const auto results = run_group(
      2, diverging({"--shards", "4", "--batch", "8", "--epochs", "1", "--precision", "fp16"}, out));
  INFO(results[0].err);
  CHECK(results[0].status == 1);
  CHECK(results[1].status == 75);
  CHECK_THAT(results[0].err, Contains("steps in a row") &&
                                 Contains("with the smallest loss scale") &&
                                 Contains("the last checkpoint is "));
}

TEST_CASE("a held-out loss that is not finite ends the run with the sample in the held-out set") {
  const SmallMasks data(32);
  // Zeros stay zeros in a U-Net without biases, whatever its weights; other pictures overflow.
  const auto blacken = [&](const char* name, std::size_t pictures) {
    std::fstream file(fs::path(data.path()) / name,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(16);
    file << std::string(pictures * 32 * 32, '\0');
  };
  blacken("train-images-idx3-ubyte", 10);
  blacken("t10k-images-idx3-ubyte", 3);
  for (const int world_size : {1, 2}) {
    const auto results = run_group(
        world_size, {"--data", data.path(), "--model=unet16", "--init=normal:1000", "--lr=0",
                     "--batch=2", "--shards=2", "--max-steps=1", "--checkpoint-every=off"});
    INFO(results[0].err);
    CHECK(results[0].status == 1);
    CHECK_THAT(results[0].err,
               Contains("the held-out loss is not finite after step 1 (sample 3 of "
                        "the held-out set, the first of 2): --lr is 0: look at this "
                        "sample and at --init; there is no checkpoint"));
  }
}

TEST_CASE("weights that overflow in the last step end the run on all ranks") {
  LargeWeights weights;
  // The logits are equal, so that the loss is that of a guess; the decay is 1e12 times the weight.
  weights.fill("fc3.weight", 1e30F);
  for (const int world_size : {1, 2}) {
    const auto results =
        run_group(world_size, weights.arguments({"--lr=1000000", "--weight-decay=1000000",
                                                 "--max-steps=1", "--checkpoint-every=off"}));
    check_ends(results,
               "fc3.weight is not finite after step 1: lower --lr, or use --warmup; there is no "
               "checkpoint");
  }
}

TEST_CASE("moments that overflow while the weights stay finite end the run on all ranks") {
  LargeWeights weights;
  // The last layer's gradient is as large as its input, and its square overflows: AdamW then moves
  // its weights no more, and the loss stays finite.
  weights.fill("fc2.bias", 1e25F);
  weights.fill("fc3.weight", 0);
  const std::string blame = ": lower --lr, or use --warmup; there is no checkpoint";
  for (const int world_size : {1, 2}) {
    const auto train_to = [&](const char* last_step, const char* every) {
      const TempDir out;
      return run_group(world_size, weights.arguments({"--optimizer=adamw", "--max-steps", last_step,
                                                      "--checkpoint-every", every, "--out",
                                                      out.path().string()}));
    };
    check_ends(train_to("4", "1"), "exp_avg_sq of fc3.weight is not finite by step 2" + blame);
    for (const char* every : {"1", "off"}) {
      check_ends(train_to("1", every),
                 "exp_avg_sq of fc3.weight is not finite after step 1" + blame);
    }
  }
}
