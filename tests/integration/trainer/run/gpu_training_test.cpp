// Whole runs of train on emulated GPUs, one for each worker, beside the same runs on the CPU.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/integration/trainer/run/gpu_exact_runs.hpp"

using namespace ddprun::test;

namespace {

using Catch::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

/// Arguments of a run of four steps, without checkpoints.
Arguments four_steps(const SmallData& data, const Arguments& more = {}) {
  Arguments arguments = short_run(data, {"--max-steps", "4", "--checkpoint-every", "off"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

double train_loss(const std::string& outcome) {
  return std::strtod(field(outcome, "train_loss").c_str(), nullptr);
}

ChildResult only(const GroupOptions& options) { return WorkerGroup(options).wait().front(); }

constexpr const char* kNoCapture =
    "train: warning: --cuda-graph auto: going on without CUDA graphs, as begin_capture failed, as "
    "the test has planned\n";

}  // namespace

TEST_CASE("a run on a GPU learns as on the CPU") {
  const SmallData data;
  const std::string cpu = train({.arguments = four_steps(data, {"--device=cpu"})});
  const std::string gpu = train(on_gpus(four_steps(data)));
  INFO(cpu << "\n" << gpu);
  REQUIRE(train_loss(cpu) > 0);
  CHECK(train_loss(gpu) == Approx(train_loss(cpu)).epsilon(1e-4));
  CHECK_THAT(field(gpu, "compute"), Contains("emulated GPU"));
}

TEST_CASE("the line at the start tells the memory that the run takes of the GPU") {
  const SmallData data;
  GroupOptions options = on_gpus(four_steps(data));
  options.json = false;
  const ChildResult result = only(options);
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  CHECK_THAT(result.out, Contains("on emulated GPU") && Contains(" MB of the GPU, "));
}

TEST_CASE("the line at the start of several ranks has the version of NCCL") {
  const SmallData data;
  const auto text_of = [&](int workers) {
    GroupOptions options = on_gpus(four_steps(data), workers);
    options.json = false;
    std::string out;
    for (const ChildResult& result : WorkerGroup(options).wait()) out += result.out;
    return out;
  };
  CHECK_THAT(text_of(2), Contains("2 workers on emulated GPU (NCCL 2.28.9), V="));
  CHECK_THAT(text_of(1), Contains("1 worker on emulated GPU, V="));
}

TEST_CASE("all ranks take as much memory of their GPUs") {
  const SmallData data;
  const auto outcome = nlohmann::json::parse(train(on_gpus(four_steps(data), 2)));
  INFO(outcome);
  const auto peaks = outcome["peak_device_bytes"].get<std::vector<double>>();
  REQUIRE(peaks.size() == 2);
  CHECK(peaks[0] > 1e6);
  CHECK(peaks[1] == Approx(peaks[0]).epsilon(0.01));
}

TEST_CASE("with --exact the weights are the same for any number of GPUs, in fp32 and in fp16") {
  const SmallData data;
  for (const char* precision : {"fp32", "fp16"}) {
    const Arguments run = four_steps(data, {"--exact", "--precision", precision});
    const std::string one = weights(on_gpus(run));
    CHECK(weights(on_gpus(run, 2)) == one);
    if (precision == std::string("fp32")) CHECK(weights(on_gpus(run, 4)) == one);
  }
}

TEST_CASE(
    "without --exact the loss is about the same for any number of GPUs, and the bits are not") {
  const SmallData data;
  const std::string one = train(on_gpus(four_steps(data)));
  const std::string two = train(on_gpus(four_steps(data), 2));
  CHECK(train_loss(two) == Approx(train_loss(one)).epsilon(1e-5));
  CHECK(weights(on_gpus(four_steps(data), 2)) == field(two, "weights"));
  // Another order of additions: the same bits would show that it was exact, and paid for.
  const std::string exact = train(on_gpus(four_steps(data, {"--exact"})));
  CHECK(field(exact, "weights") != field(one, "weights"));
  CHECK_THAT(field(exact, "compute"), EndsWith(", exact"));
  CHECK_THAT(field(one, "compute"), !Contains("exact"));
  CHECK_THAT(field(two, "compute"), EndsWith(", sums of 2 workers"));
}

TEST_CASE("with CUDA graphs the weights are those without, for one GPU and for two") {
  const SmallData data;
  const Arguments kinds[] = {
      {"--exact"}, {"--precision", "bf16"}, {"--precision", "fp16", "--inject-overflow-at", "3"}};
  for (const Arguments& kind : kinds) {
    for (const int workers : {1, 2}) {
      INFO(kind.front() << ", " << workers << " workers");
      const auto run = [&](const std::string& graphs) {
        Arguments arguments = short_run(data, {"--max-steps", "6", "--checkpoint-every", "off",
                                               "--bucket-mb=0.1", "--cuda-graph=" + graphs});
        arguments.insert(arguments.end(), kind.begin(), kind.end());
        return weights(on_gpus(arguments, workers));
      };
      CHECK(run("auto") == run("off"));
    }
  }
}

TEST_CASE("data sets that stay on the GPU give the weights of samples that are sent") {
  const SmallData data;
  for (const Arguments& kind :
       {Arguments{"--precision=fp16"}, Arguments{"--crop=24+2", "--flip"}}) {
    INFO(kind.front());
    Arguments run{"--data", data.path(), "--shards=4", "--batch=8", "--epochs=2", "--max-steps=12"};
    run.insert(run.end(), kind.begin(), kind.end());
    check_stays(run);
  }
}

TEST_CASE("a GPU that cannot capture graphs trains without, with one line that tells why") {
  const SmallData data;
  const Arguments arguments = four_steps(data, {"--exact"});
  GroupOptions options = on_gpus(arguments);
  options.environment.emplace_back("DDPRUN_EMULATED_CAPTURES", "0");
  const ChildResult result = only(options);
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  CHECK(result.err == kNoCapture);
  CHECK(field(last_line(result.out), "weights") == weights(on_gpus(arguments)));
  options.arguments.emplace_back("--cuda-graph=off");
  CHECK(only(options).err.empty());
}

TEST_CASE("a GPU that cannot capture an evaluation evaluates without, with one line") {
  const SmallData data;
  // Nothing in one step of one shard repeats, but the batches of the evaluation do.
  const auto options = [&](const std::string& batch) {
    return on_gpus({"--data", data.path(), "--shards=1", "--max-steps=1", "--checkpoint-every=off",
                    "--batch=" + batch});
  };
  GroupOptions refusing = options("8");
  refusing.environment.emplace_back("DDPRUN_EMULATED_CAPTURES", "0");
  const ChildResult result = only(refusing);
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  CHECK(result.err == kNoCapture);
  const std::string captured = train(options("8"));
  for (const char* const name : {"weights", "test_loss", "test_accuracy"})
    CHECK(field(last_line(result.out), name) == field(captured, name));
  GroupOptions one_batch = options("64");
  one_batch.environment = refusing.environment;
  CHECK(only(one_batch).err.empty());
}

TEST_CASE("ranks with and without --exact are told before they begin") {
  const SmallData data;
  GroupOptions options = on_gpus(four_steps(data), 2);
  options.prefix = {"/bin/sh", "-c", "test $RANK = 0 || set -- \"$@\" --exact; exec \"$@\"", "sh"};
  for (const ChildResult& result : WorkerGroup(options).wait()) {
    CHECK(result.status == 2);
    CHECK_THAT(result.err, Contains("rank 1 was started with --exact, but rank 0 without"));
  }
}

TEST_CASE("ranks with another version of NCCL are told before they begin") {
  const SmallData data;
  GroupOptions options = on_gpus(four_steps(data), 2);
  options.prefix = {"/bin/sh", "-c",
                    "test $RANK = 0 || export DDPRUN_FAKE_NCCL_VERSION=22105; exec \"$@\"", "sh"};
  for (const ChildResult& result : WorkerGroup(options).wait()) {
    CHECK(result.status == 2);
    CHECK_THAT(result.err, Contains("rank 1 on ") && Contains(" has NCCL 2.21.5 where rank 0 on "));
  }
}

TEST_CASE("a loss that is no number from the start ends runs on GPUs as on CPUs") {
  const SmallData data;
  for (const int workers : {1, 2}) {
    INFO(workers << " workers");
    const Arguments run =
        four_steps(data, {"--init=normal:1000", "--precision=fp16", "--loss-scale=none"});
    const auto results = WorkerGroup(on_gpus(run, workers)).wait();
    CHECK(results[0].status == 1);
    CHECK_THAT(results[0].err, Contains("the loss is not finite in step 1 ") &&
                                   Contains("no update was made before it"));
    if (workers == 2) CHECK(results[1].status == 75);
  }
}

TEST_CASE("a rank on the CPU beside one on a GPU is refused with both named") {
  const SmallData data;
  GroupOptions options = on_gpus(four_steps(data), 2);
  options.arguments.back() = "--device=auto";
  // One rank sees fewer GPUs than there are workers, as on another machine.
  const auto without_gpus_on = [&](const std::string& rank) {
    options.prefix = {"/bin/sh", "-c",
                      "test $RANK != " + rank + " || export DDPRUN_EMULATED_GPUS=0; exec \"$@\"",
                      "sh"};
    return WorkerGroup(options).wait();
  };
  auto results = without_gpus_on("1");
  CHECK(results[1].status == 2);
  CHECK_THAT(results[1].err, Contains("rank 1 trains on the CPU, but rank 0 on a GPU") &&
                                 Contains("2 workers") && Contains("0 GPUs"));
  CHECK(results[0].status == 2);
  CHECK_THAT(results[0].err, Contains("rank 1 ") && Contains("--device"));
  results = without_gpus_on("0");
  CHECK(results[1].status == 2);
  CHECK_THAT(results[1].err, Contains("rank 1 trains on a GPU, but rank 0 on the CPU"));
  CHECK(results[0].status == 2);
}

TEST_CASE("what does not fit into the GPU's memory is reported with what helps") {
  const SmallData data;
  GroupOptions options = on_gpus(four_steps(data));
  options.environment.emplace_back("DDPRUN_EMULATED_MEMORY", "500000");
  const ChildResult early = only(options);
  CHECK(early.status == 2);
  CHECK_THAT(early.err, Contains("of GPU memory") &&
                            Contains("but emulated GPU has 500 kB: use a smaller --"));
  // With several workers their gradients count, too.
  options.environment.back().second = "9000000";
  GroupOptions several = on_gpus(four_steps(data), 2);
  several.environment = options.environment;
  for (const ChildResult& result : WorkerGroup(several).wait()) {
    CHECK(result.status == 2);
    CHECK_THAT(result.err, Contains("this run needs") && Contains("of GPU memory"));
  }
  // The plan fits, but other programs use a part of the memory.
  options.environment.emplace_back("DDPRUN_EMULATED_USED", "7000000");
  const ChildResult late = only(options);
  CHECK(late.status == 2);
  CHECK_THAT(late.err, Contains("out of GPU memory: ") && Contains("this worker needs"));
  // Not even the gradients that NCCL adds up fit.
  options.world_size = 2;
  options.environment = {options.environment.front(),
                         {"DDPRUN_EMULATED_MEMORY", "40000000"},
                         {"DDPRUN_EMULATED_USED", "39900000"}};
  for (const ChildResult& result : WorkerGroup(options).wait()) {
    CHECK(result.status == 2);
    CHECK_THAT(result.err, Contains("out of GPU memory: ") && Contains("this worker needs"));
  }
}

TEST_CASE("a run in tf32 learns about as in fp32, with other bits, and is a run of its own") {
  const SmallData data;
  const TempDir directory;
  const Arguments kept = short_run(data, {"--max-steps", "4", "--out", directory / "out"});
  const auto with = [](Arguments arguments, const Arguments& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return on_gpus(std::move(arguments));
  };
  const std::string fp32 = train(on_gpus(four_steps(data)));
  const std::string tf32 = train(with(kept, {"--precision=tf32"}));
  INFO(fp32 << "\n" << tf32);
  CHECK(train_loss(tf32) == Approx(train_loss(fp32)).epsilon(1e-2));
  CHECK(field(tf32, "weights") != field(fp32, "weights"));
  CHECK_THAT(field(tf32, "compute"), EndsWith(", tf32"));
  const ChildResult other = only(with(kept, {"--resume=strict"}));
  CHECK(other.status == 2);
  CHECK_THAT(other.err, Contains("belongs to another run") && Contains("precision"));
  CHECK(only(with(kept, {"--resume=strict", "--precision=tf32"})).status == 0);
}

TEST_CASE("without memory on the GPU neither weights nor a checkpoint are read") {
  const SmallData data;
  const TempDir directory;
  const std::string out = directory / "out";
  GroupOptions options = on_gpus(short_run(data, {"--max-steps", "4", "--out", out}));
  static_cast<void>(train(options));
  // Bytes at which reading would fail with another message.
  const auto model = std::filesystem::path(out) / "latest" / "model.safetensors";
  std::fstream file(model, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(model)) - 400);
  file << std::string(400, '\xff');
  file.close();
  options.environment.emplace_back("DDPRUN_EMULATED_MEMORY", "500000");
  const auto check_refused = [](const ChildResult& result) {
    CHECK(result.status == 2);
    CHECK_THAT(result.err, StartsWith("train: this run needs") && Contains("of GPU memory"));
    CHECK(result.err.find('\n') == result.err.size() - 1);
  };
  check_refused(only(options));
  options.arguments = on_gpus(four_steps(data, {"--init-from", model})).arguments;
  check_refused(only(options));
}

TEST_CASE("workers that share a GPU end with the weights of one that has it alone") {
  const SmallData data;
  const std::string alone = weights(on_gpus(four_steps(data, {"--exact"})));
  GroupOptions options = on_gpus(four_steps(data, {"--exact", "--share-gpu"}), 2);
  options.environment.emplace_back("DDPRUN_EMULATED_GPUS", "1");
  CHECK(weights(options) == alone);
}

TEST_CASE("more workers than emulated GPUs are refused before they meet") {
  const SmallData data;
  GroupOptions options = on_gpus(four_steps(data), 2);
  options.environment.emplace_back("DDPRUN_EMULATED_GPUS", "1");
  for (const ChildResult& result : WorkerGroup(options).wait()) {
    CHECK(result.status == 2);
    CHECK_THAT(result.err, Contains("2 workers") && Contains("1 GPU is visible"));
  }
}
