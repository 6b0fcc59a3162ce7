// What cannot work is refused in one line, quickly; a lost peer is named and ends with its own exit
// code.
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

using Arguments = std::vector<std::string>;
using Catch::Matchers::Contains;
using Environment = std::vector<std::pair<std::string, std::string>>;

ChildResult start(const Arguments& arguments, const Environment& environment = {}) {
  Arguments command{program("train")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const TempDir directory;
  ChildOptions options;
  options.leave_stdin = true;
  options.environment = environment;
  options.directory = directory.path();
  ChildResult result = run(command, options);
  // Nothing was started: not even a directory was made.
  if (result.status == 2) CHECK(fs::is_empty(directory.path()));
  return result;
}

std::string free_port() {
  const auto listener = ddprun::rdzv::listen_store("127.0.0.1", 0);
  REQUIRE(listener.has_value());
  return std::to_string(listener->port);
}

Arguments long_run(const SmallData& data, const std::string& comm_timeout) {
  return {"--data",         data.path(),  "--batch",     "8",       "--shards",           "4",
          "--epochs",       "100000",     "--max-steps", "1000000", "--checkpoint-every", "off",
          "--comm-timeout", comm_timeout, "--json"};
}

}  // namespace

TEST_CASE("bad input ends with exit code 2 and one line with the remedy") {
  const SmallData data;
  const TempDir empty;
  const Environment two{{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  struct Case {
    Arguments arguments;
    Environment environment;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases{
      {{"--data", "/nonexistent/data"},
       {},
       {"/nonexistent/data", "no such directory", "generated"}},
      {{"--data", "/etc/passwd"}, {}, {"/etc/passwd: not a directory", "takes a folder"}},
      {{"--data", empty.path().string()},
       {},
       {"no data for a model", "train-images-idx3-ubyte", "data_batch_1.bin", "it is empty"}},
      {{"--init-from", "/tmp"}, {}, {"--init-from=/tmp: a directory", "model.safetensors"}},
      {{"--global-batch", "10", "--shards", "4"}, {}, {"--global-batch 10", "not divisible"}},
      {{"--global-batch", "9", "--accumulate", "2"}, {}, {"--global-batch 9", "not divisible"}},
      {{"--shards", "1"},
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}},
       {"1 shard is too few for 2 workers"}},
      {{"--model", "alexne"}, {}, {"alexne", "lenet", "resnet18", "did you mean alexnet?"}},
      {{"--model", "unet-resnet34", "--image-shape", "96x64x3"},
       {},
       {"images of 96x64x3", "multiples of 64", "128x64x3"}},
      {{"--classes", "9"}, {}, {"--classes 9", "10 classes", "--classes=10"}},
      {{"--classes", "5", "--data", data.path()},
       {},
       {"train-labels-idx1-ubyte: sample ", ": the label is ", "--classes=5 allows 0 to 4"}},
      // More than any machine has: must be refused before any of it is allocated.
      {{"--model", "unet16", "--batch", "1000000"},
       {},
       {"this run needs ", " TB of memory", "use a smaller --batch"}},
      {{"--model", "alexnet", "--data", data.path()},
       {},
       {"images of 28x28x1", "at least 63x63x1", "--model"}},
      {{"--model", "textclf", "--data", data.path()}, {}, {data.path(), "--data generated"}},
      {{"--parallel=dp"}, {}, {"--parallel dp needs --replicas"}},
      {{"--replicas=2"}, {}, {"--replicas needs --parallel dp"}},
      {{"--parallel=dp", "--replicas=4", "--global-batch=10"},
       {},
       {"--replicas 4 does not divide --global-batch 10", "a multiple of 4"}},
      {{"--parallel=dp", "--replicas=4", "--shards=6"},
       {},
       {"--replicas 4 does not divide the 6 shards"}},
      {{"--parallel=dp", "--replicas=2", "--device=cuda"},
       {},
       {"--parallel dp trains on the CPU", "ddprun --nproc-per-node=gpu"}},
      {{"--parallel=dp", "--replicas=2", "--lanes=2"}, {}, {"--lanes needs --parallel ddp"}},
      // Any rank refuses it, without the others.
      {{"--parallel=dp", "--replicas=2"},
       {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}},
       {"--parallel dp is for one worker with 2 replicas, but WORLD_SIZE is 2"}},
      // All replicas count before any of them is allocated.
      {{"--parallel=dp", "--replicas=2", "--model", "unet16", "--batch", "1000000"},
       {},
       {"this run needs ", " TB of memory", "use a smaller --batch"}},
      {{"--epoch", "2"}, {}, {"--epoch", "did you mean --epochs?"}},
      {{"--out", "/proc/nowhere"}, {}, {"--out /proc/nowhere", "cannot write"}},
      {{}, two, {"MASTER_ADDR"}},
      {{}, {{"WORLD_SIZE", "two"}}, {"WORLD_SIZE=two"}},
      {{}, {{"WORLD_SIZE", "2"}}, {"RANK is not set"}},
  };
  for (const Case& one : cases) {
    const ChildResult result = start(one.arguments, one.environment);
    INFO(result.err);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.err.find('\n') == result.err.size() - 1);
    for (const std::string& part : one.parts) CHECK_THAT(result.err, Contains(part));
  }
}

TEST_CASE("damaged data files are named with the offset") {
  const SmallData data;
  const TempDir broken;
  fs::copy(data.path(), broken.path(), fs::copy_options::recursive);
  const fs::path images = broken / "train-images-idx3-ubyte";
  SECTION("cut short") {
    fs::resize_file(images, 5000);
    const ChildResult result = start({"--data", broken.path()});
    CHECK(result.status == 2);
    CHECK_THAT(result.err, Contains("train-images-idx3-ubyte: offset 5000: cut short"));
  }
  SECTION("wrong magic") {
    std::fstream(images, std::ios::in | std::ios::out | std::ios::binary) << "PNG!";
    const ChildResult result = start({"--data", broken.path()});
    CHECK(result.status == 2);
    CHECK_THAT(result.err, Contains("train-images-idx3-ubyte: offset 0: magic"));
  }
}

TEST_CASE("no store within the time: address and time are named") {
  const std::string port = free_port();
  for (const char* rank : {"0", "1"}) {
    const auto began = std::chrono::steady_clock::now();
    const ChildResult result =
        start({"--rendezvous-timeout", "500ms"}, {{"RANK", rank},
                                                  {"WORLD_SIZE", "2"},
                                                  {"MASTER_ADDR", "127.0.0.1"},
                                                  {"MASTER_PORT", port},
                                                  {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
    INFO(result.err);
    CHECK_THAT(result.err, Contains("127.0.0.1:" + port) && Contains("within 0.5 s"));
    CHECK_FALSE(result.timed_out);
    CHECK(result.status != 0);
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(30));
  }
}

TEST_CASE("a port that is taken is named by the rank that wanted to host the store there") {
  const auto listener = ddprun::rdzv::listen_store("127.0.0.1", 0);
  REQUIRE(listener.has_value());
  const ChildResult result = start({}, {{"RANK", "0"},
                                        {"WORLD_SIZE", "2"},
                                        {"MASTER_ADDR", "127.0.0.1"},
                                        {"MASTER_PORT", std::to_string(listener->port)}});
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("rank 0 cannot host the store") &&
                             Contains(std::to_string(listener->port)) &&
                             Contains("Address already in use"));
}

TEST_CASE("a rank without its peers gives up in time, as a victim") {
  const ChildResult result = start({"--rendezvous-timeout", "500ms", "--checkpoint-every", "off"},
                                   {{"RANK", "0"},
                                    {"WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "127.0.0.1"},
                                    {"MASTER_PORT", free_port()}});
  INFO(result.err);
  CHECK(result.status == 75);
  CHECK_THAT(result.err, Contains("rank 1"));
}

TEST_CASE("a rank that rank 0 does not tell the number of shards gives up in time, as a victim") {
  auto listener = ddprun::rdzv::listen_store("127.0.0.1", 0);
  REQUIRE(listener.has_value());
  const std::string port = std::to_string(listener->port);
  const auto store = ddprun::rdzv::StoreServer::start(std::move(*listener)).value();
  const ChildResult result = start({"--rendezvous-timeout", "500ms", "--checkpoint-every", "off"},
                                   {{"RANK", "1"},
                                    {"WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "127.0.0.1"},
                                    {"MASTER_PORT", port},
                                    {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  INFO(result.err);
  CHECK(result.status == 75);
  CHECK_THAT(result.err, Contains("train: error: rank 1: rendezvous failed: ") &&
                             Contains("the number of shards") && Contains("by the deadline") &&
                             Contains("--rendezvous-timeout"));
}

TEST_CASE("ranks that were started with different options do not train together") {
  const SmallData data;
  const auto option = GENERATE(as<std::string>{}, "--lr", "--max-steps");
  auto listener = ddprun::rdzv::listen_store("127.0.0.1", 0);
  REQUIRE(listener.has_value());
  const auto store = ddprun::rdzv::StoreServer::start(std::move(*listener)).value();
  std::vector<std::unique_ptr<Child>> children;
  for (const std::string rank : {"0", "1"}) {
    ChildOptions options;
    options.leave_stdin = true;
    options.environment = {{"RANK", rank},
                           {"WORLD_SIZE", "2"},
                           {"MASTER_ADDR", store.addr()},
                           {"MASTER_PORT", std::to_string(store.port())},
                           {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
    children.push_back(std::make_unique<Child>(
        std::vector<std::string>{program("train"), "--data", data.path(), "--checkpoint-every",
                                 "off", option, rank == "0" ? "5" : "6"},
        options));
  }
  const ChildResult zero = children[0]->wait();
  const ChildResult one = children[1]->wait();
  INFO(zero.err << one.err);
  CHECK(zero.status == 75);
  CHECK(one.status == 2);
  CHECK_THAT(one.err,
             Contains("rank 1 was started with other options") &&
                 (Contains("lr 5.0 there, 6.0 here") || Contains("last_step 5 there, 6 here")));
}

TEST_CASE("a second run with the same --out is refused with the process id of the first") {
  const SmallData data;
  const TempDir directory;
  const std::string out = directory / "out";
  WorkerGroup first(
      {.arguments = {"--data", data.path(), "--epochs", "100000", "--json", "--out", out},
       .json = false});
  REQUIRE(first.rank(0).wait_for_output("interval"));
  const ChildResult second = start({"--data", data.path(), "--out", out});
  CHECK(second.status == 2);
  CHECK_THAT(second.err,
             Contains(out + ": train with process id " + std::to_string(first.rank(0).pid())) &&
                 Contains("wait until it has ended, or name another directory by --out"));
  first.rank(0).signal(SIGKILL);
  first.wait();
  CHECK(start({"--data", data.path(), "--out", out, "--max-steps=1"}).status == 0);
}

TEST_CASE("a killed rank is named by the others, which end with the code of a victim") {
  const SmallData data;
  WorkerGroup group({.world_size = 2, .arguments = long_run(data, "60s"), .json = false});
  REQUIRE(group.rank(0).wait_for_output("interval"));
  group.rank(1).signal(SIGKILL);
  const auto results = group.wait();
  INFO(results[0].err);
  CHECK(results[0].status == 75);
  CHECK_THAT(results[0].err,
             Contains("train: error: rank 0: gave up in step") && Contains("rank 1"));
  CHECK(results[0].err.find('\n') == results[0].err.size() - 1);
}

TEST_CASE("a stopped rank is waited for until the deadline, then named") {
  const SmallData data;
  WorkerGroup group({.world_size = 2, .arguments = long_run(data, "700ms"), .json = false});
  REQUIRE(group.rank(0).wait_for_output("interval"));
  group.rank(1).signal(SIGSTOP);
  const ChildResult survivor = group.rank(0).wait();
  INFO(survivor.err);
  CHECK(survivor.status == 75);
  CHECK_THAT(survivor.err, Contains("rank 1"));
  group.rank(1).signal(SIGCONT);
  CHECK(group.rank(1).wait().status == 75);
}

TEST_CASE("libraries of the same names in LD_LIBRARY_PATH do not stop the program") {
  const TempDir poison;
  for (const char* name : {"libdnnl.so.2", "libgomp.so.1", "libstdc++.so.6", "libgcc_s.so.1",
                           "libz.so.1", "libm.so.6"}) {
    std::ofstream(poison / name) << "not a library";
  }
  const ChildResult result = start({"--version"}, {{"LD_LIBRARY_PATH", poison.path()}});
  INFO(result.err);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // The sanitizers' own libraries are what a sanitized build needs first; their paths are the
  // compiler's.
#endif
  CHECK(result.status == 0);
}
