// Training gives one result, bit by bit, whatever the world size, the accumulation, the threads
// around and the interruptions.
#include <sched.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;
using Catch::Matchers::Contains;

namespace {

using Arguments = std::vector<std::string>;

/// Two short epochs of a small set, with V=4 and b=8; `more` is appended.
Arguments small_run(const SmallData& data, const Arguments& more = {}) {
  Arguments arguments{"--data", data.path(), "--batch", "8", "--epochs", "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

const Arguments kFourShards{"--shards", "4", "--checkpoint-every", "off"};

std::string weights_of(const GroupOptions& options) { return weights(options); }

}  // namespace

TEST_CASE("weights are the same bits for world sizes 1, 2, 3 and 4") {
  const SmallData data;
  const auto optimizer = GENERATE(as<std::string>{}, "sgd", "adamw");
  Arguments arguments = small_run(data, kFourShards);
  arguments.insert(arguments.end(), {"--optimizer", optimizer, "--weight-decay", "0.01"});
  const std::string one = weights_of({.world_size = 1, .arguments = arguments});
  for (const int world_size : {2, 3, 4}) {
    INFO("world size " << world_size << ", " << optimizer);
    CHECK(weights_of({.world_size = world_size, .arguments = arguments}) == one);
  }
}

TEST_CASE("classifiers have the same bits for any world size, held-out metrics too") {
  struct Case {
    int side;
    Arguments arguments;
  };
  // 250 samples are 7 steps of 32 and one with an odd tail.
  const auto one = GENERATE(
      values<Case>({{28, {"--model=lenet", "--batch=8"}},
                    {63, {"--model=alexnet", "--batch=3", "--momentum=0", "--max-steps=1"}},
                    {12, {"--model=resnet18", "--batch=8"}},
                    {12, {"--model=resnet18", "--batch=8", "--precision=bf16"}}}));
  const SmallData data(one.side);
  Arguments arguments{"--data", data.path(), "--epochs=1"};
  arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
  check_world_sizes(arguments, "test_accuracy");
}

// The larger ones are in exactness_slow_test.cpp.
TEST_CASE("U-Nets have the same bits for any world size, held-out metrics too") {
  struct Case {
    int side;
    Arguments arguments;
  };
  // 10 samples are a step of 8 and one of 4, two of them again; 5 held-out ones are two groups of 2
  // and one of 1.
  const auto one =
      GENERATE(values<Case>({{32, {"--model=unet16", "--pos-weight=auto"}},
                             {32, {"--model=unet16", "--decoder=deconv", "--precision=bf16"}}}));
  const SmallMasks data(one.side);
  Arguments arguments{"--data", data.path(), "--epochs=1", "--batch=2", "--lr=0.01"};
  arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
  check_world_sizes(arguments, "test_iou");
}

TEST_CASE("textclf has the same bits for any world size and after a kill, held-out metrics too") {
  const auto precision = GENERATE(as<std::string>{}, "fp32", "bf16");
  // 90 sentences are 2 steps of 4 x 8 in each epoch and one with an odd tail. 23 are held out.
  const Arguments arguments{
      "--model=textclf", "--sentences=90",    "--max-tokens=40", "--batch=8",
      "--epochs=2",      "--optimizer=adamw", "--lr=0.001",      "--precision=" + precision};
  const std::string one = check_world_sizes(arguments, "test_accuracy");
  check_same_result(one, train_through_kill(arguments), "test_accuracy");
}

TEST_CASE("a rate that falls at a plateau is the same for any world size and after a kill") {
  const SmallData data;
  // At so small a rate the second epoch's loss is not better by a 10,000th: the third has a tenth
  // of the rate.
  const Arguments arguments{"--data",       data.path(),          "--batch=8",
                            "--epochs=4",   "--schedule=plateau", "--plateau-patience=0",
                            "--warmup=20%", "--scale-lr=16",      "--lr=0.0000001",
                            "--nesterov",   "--grad-clip=0.5"};
  const std::string one = check_world_sizes(arguments, "test_accuracy");
  Arguments constant = arguments;
  constant[4] = "--schedule=constant";
  std::erase(constant, "--plateau-patience=0");
  constant.insert(constant.end(), {"--shards=4", "--checkpoint-every=off"});
  CHECK(weights_of({.arguments = constant}) != field(one, "weights"));
  check_same_result(one, train_through_kill(arguments), "test_accuracy");
}

TEST_CASE("windows and flips are the same for any world size and after a kill within an epoch") {
  const SmallData data;
  const Arguments arguments{"--data",      data.path(), "--batch=8",       "--epochs=2",
                            "--crop=24+3", "--flip",    "--normalize=none"};
  const std::string one = check_world_sizes(arguments, "test_accuracy");
  check_same_result(one, train_through_kill(arguments), "test_accuracy");
  Arguments unflipped = arguments;
  std::erase(unflipped, "--flip");
  unflipped.insert(unflipped.end(), kFourShards.begin(), kFourShards.end());
  CHECK(weights_of({.arguments = unflipped}) != field(one, "weights"));
}

TEST_CASE("running statistics are the same bits after a kill, with other ranks") {
  const SmallData data(12);
  const Arguments arguments{"--data",    data.path(),  "--model=resnet18",
                            "--batch=8", "--epochs=1", "--max-steps=5"};
  Arguments off = arguments;
  off.insert(off.end(), kFourShards.begin(), kFourShards.end());
  check_same_result(train({.arguments = off}), train_through_kill(arguments), "test_accuracy");
}

TEST_CASE("weights differ when anything that should matter differs") {
  const SmallData data;
  const std::string base = weights_of({.arguments = small_run(data, kFourShards)});
  for (const Arguments& change :
       {Arguments{"--seed", "1"}, Arguments{"--lr", "0.04"}, Arguments{"--schedule", "constant"},
        Arguments{"--precision", "bf16"}, Arguments{"--max-steps", "15"}}) {
    Arguments arguments = small_run(data, kFourShards);
    arguments.insert(arguments.end(), change.begin(), change.end());
    INFO(change[0]);
    CHECK(weights_of({.arguments = arguments}) != base);
  }
}

TEST_CASE("accumulating 4 shards on one rank gives what 4 ranks give") {
  const SmallData data;
  const Arguments off{"--checkpoint-every", "off"};
  Arguments accumulate = small_run(data, off);
  accumulate.insert(accumulate.end(), {"--accumulate", "4"});
  CHECK(weights_of({.world_size = 1, .arguments = accumulate}) ==
        weights_of({.world_size = 4, .arguments = small_run(data, off)}));
}

TEST_CASE("weights depend neither on threads, lanes and cores around a run, nor on buckets") {
  const SmallData data;
  const Arguments arguments = small_run(data, kFourShards);
  const std::string base = weights_of({.world_size = 2, .arguments = arguments});
  for (const char* threads : {"", "1", "4"}) {
    INFO("OMP_NUM_THREADS=" << threads);
    CHECK(weights_of({.world_size = 2,
                      .arguments = arguments,
                      .environment = {{"OMP_NUM_THREADS", threads}}}) == base);
  }
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  CHECK(weights_of({.world_size = 2,
                    .arguments = arguments,
                    .prefix = {"taskset", "-c", std::to_string(core)}}) == base);
  for (const Arguments& change : {Arguments{"--lanes", "1"}, Arguments{"--lanes", "2"},
                                  Arguments{"--lanes", "4"}, Arguments{"--bucket-mb", "0.01"}}) {
    Arguments changed = arguments;
    changed.insert(changed.end(), change.begin(), change.end());
    INFO(change[0] << " " << change[1]);
    CHECK(weights_of({.world_size = 1, .arguments = changed}) == base);
  }
}

TEST_CASE("two threads a shard are as exact as one, and OMP_NUM_THREADS does not change them") {
  const SmallData data;
  Arguments arguments = small_run(data, kFourShards);
  arguments.insert(arguments.end(), {"--threads-per-shard", "2", "--max-steps", "4"});
  const std::string base = weights_of({.world_size = 1, .arguments = arguments});
  CHECK(weights_of(
            {.world_size = 2, .arguments = arguments, .environment = {{"OMP_NUM_THREADS", "1"}}}) ==
        base);
}

TEST_CASE("half precisions are as exact as fp32") {
  const SmallData data;
  const auto precision = GENERATE(as<std::string>{}, "bf16", "fp16");
  Arguments arguments = small_run(data, kFourShards);
  arguments.insert(arguments.end(), {"--precision", precision});
  const std::string one = weights_of({.world_size = 1, .arguments = arguments});
  for (const int world_size : {2, 3, 4})
    CHECK(weights_of({.world_size = world_size, .arguments = arguments}) == one);
}

TEST_CASE("bf16 on a CPU without instructions for it is rounded, as exact, and one line says so") {
  const SmallData data(12);
  const auto model = GENERATE(as<std::string>{}, "lenet", "resnet18");
  const std::vector<std::pair<std::string, std::string>> without{
      {"ONEDNN_MAX_CPU_ISA", "AVX512_CORE"}};
  Arguments arguments{"--data",   data.path(), "--model",     model,  "--batch",     "8",
                      "--epochs", "1",         "--precision", "bf16", "--max-steps", "4"};
  arguments.insert(arguments.end(), kFourShards.begin(), kFourShards.end());
  const std::string one = train({.arguments = arguments, .environment = without});
  CHECK_THAT(field(one, "compute"), Contains("bf16 rounded"));
  for (const int world_size : {2, 3}) {
    WorkerGroup group({.world_size = world_size, .arguments = arguments, .environment = without});
    const std::vector<ChildResult> results = group.wait();
    for (const ChildResult& result : results) REQUIRE(result.status == 0);
    CHECK(field(last_line(results[0].out), "weights") == field(one, "weights"));
    CHECK_THAT(results[0].err, Contains("no instructions for it (avx512_bf16)"));
    CHECK(results[1].err.empty());
  }
}

TEST_CASE("an overflow is skipped on all ranks, halves the loss scale, and training goes on") {
  const SmallData data;
  const TempDir directory;
  Arguments arguments = small_run(data, {"--shards", "4", "--precision", "fp16"});
  arguments.insert(arguments.end(), {"--inject-overflow-at", "3"});
  const auto with_out = [&](const std::string& name) {
    Arguments result = arguments;
    result.insert(result.end(), {"--out", directory / name});
    return result;
  };
  const std::string two = train({.world_size = 2, .arguments = with_out("two")});
  CHECK(field(two, "skipped") == "1");
  CHECK(field(two, "steps") == "16");
  std::ifstream in(directory / "two" / "latest" / "state.json");
  const std::string state(std::istreambuf_iterator<char>(in), {});
  CHECK(field(field(state, "optimizer"), "loss_scale") == "32768.0");
  CHECK(field(field(state, "optimizer"), "updates") == "15");
  CHECK(field(train({.world_size = 1, .arguments = with_out("one")}), "weights") ==
        field(two, "weights"));
}

TEST_CASE("ranks started by hand meet in a store that rank 0 hosts") {
  const SmallData data;
  const Arguments arguments = small_run(data, kFourShards);
  const std::string one = weights_of({.arguments = arguments});
  // A port that was free a moment ago: without a launcher, no process passes a socket on.
  std::string port;
  {
    const auto listener = ddprun::rdzv::listen_store("127.0.0.1", 0);
    REQUIRE(listener.has_value());
    port = std::to_string(listener->port);
  }
  std::vector<std::unique_ptr<Child>> children;
  for (const char* rank : {"1", "0"}) {  // the client comes first, and waits for the host
    std::vector<std::string> command{program("train"), "--json", "--quiet"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    ChildOptions options;
    options.leave_stdin = true;
    options.environment = {
        {"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", port}};
    children.push_back(std::make_unique<Child>(command, options));
  }
  const ChildResult client = children[0]->wait();
  const ChildResult host = children[1]->wait();
  INFO(client.err << host.err);
  CHECK(client.status == 0);
  REQUIRE(host.status == 0);
  CHECK(field(last_line(host.out), "weights") == one);
}
