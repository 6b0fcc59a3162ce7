// A run that this machine cannot hold is refused before it reads weights or a checkpoint.
#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>

#include "tests/integration/trainer/run/worker_group.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

using Arguments = std::vector<std::string>;
using Catch::Matchers::Contains;

/// Shows `train` a machine with so much memory, in a mount namespace of its own.
class SmallMachine {
 public:
  explicit SmallMachine(int kilobytes) {
    const std::string size = std::to_string(kilobytes) + " kB\n";
    std::ofstream(directory_ / "meminfo") << "MemTotal: " << size << "MemAvailable: " << size;
  }

  [[nodiscard]] Arguments prefix() const {
    const std::string mount =
        "mount --bind '" + (directory_ / "meminfo").string() + "' /proc/meminfo && exec \"$@\"";
    return {"unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh"};
  }

  /// Whether this system lets us.
  [[nodiscard]] bool is_possible() const {
    Arguments command = prefix();
    command.insert(command.end(), {"grep", "-q", "MemTotal: [0-9]* kB", "/proc/meminfo"});
    return run(command).status == 0;
  }

 private:
  TempDir directory_;
};

/// Lenet of 28x28 pixels has 0.25 MB of parameters: the weights and the learner of a run fit in
/// this, but not gradients, copies for checkpoints and a lane.
constexpr int kTooLittle = 1000;

ChildResult train_in(const SmallMachine& machine, const Arguments& arguments) {
  WorkerGroup group({.arguments = arguments, .prefix = machine.prefix(), .json = false});
  return group.wait()[0];
}

void check_refused(const ChildResult& result) {
  INFO(result.out << result.err);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains("this run needs ") && Contains("this machine has 1 MB: use a "));
  CHECK(result.err.find('\n') == result.err.size() - 1);
}

}  // namespace

TEST_CASE("without memory for training neither weights nor a checkpoint are read") {
  const SmallMachine machine(kTooLittle);
  if (!machine.is_possible()) skip("no mount namespaces here");
  const SmallData data;
  const TempDir directory;
  const fs::path out = directory / "out";
  const Arguments arguments = three_epochs(data, {"--max-steps", "2", "--lanes", "2"});
  const auto with = [&](const Arguments& more) {
    Arguments all = arguments;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  train({.arguments = with({"--out", out})});
  // Bytes at which reading would fail with another message: those of a tensor are no numbers, and
  // the checksum does not match.
  const fs::path model = out / "latest" / "model.safetensors";
  const std::uint64_t size = fs::file_size(model);
  std::fstream file(model, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size) - 400);
  file << std::string(400, '\xff');
  file.close();

  SECTION("--init-from") {
    check_refused(train_in(machine, with({"--init-from", model, "--checkpoint-every", "off"})));
  }
  SECTION("a checkpoint") { check_refused(train_in(machine, with({"--out", out}))); }
  SECTION("both are read where there is memory") {
    const ChildResult weights =
        train_in(SmallMachine(10'000'000), with({"--init-from", model, "--checkpoint-every=off"}));
    CHECK(weights.status == 2);
    CHECK_THAT(weights.err, Contains(" holds ") && Contains("nan"));
    const ChildResult checkpoint = train_in(SmallMachine(10'000'000), with({"--out", out}));
    CHECK_THAT(checkpoint.err, Contains("damaged (its checksum does not match)"));
  }
}

TEST_CASE("data sets of all workers here that never fit are named before any is loaded") {
  // Each worker has 14,000 generated pictures of 28x28 pixels and their labels, 11 MB.
  const SmallMachine machine(42'000);
  if (!machine.is_possible()) skip("no mount namespaces here");
  WorkerGroup group({.world_size = 4,
                     .arguments = {"--max-steps=1", "--checkpoint-every=off"},
                     .prefix = machine.prefix()});
  for (const ChildResult& result : group.wait()) {
    CHECK(result.status == 2);
    CHECK(
        result.err ==
        "train: the 4 workers here need 44 MB of memory for the data sets, but this machine has 43 "
        "MB: use fewer samples, or less memory for them (--image-shape, --max-tokens, "
        "--data-memory)\n");
  }
}

// The address space of a sanitizer passes any limit.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

/// In an address space of so many bytes.
ChildResult train_within(std::uint64_t bytes, const Arguments& arguments) {
  WorkerGroup group(
      {.arguments = arguments,
       .prefix = {"sh", "-c", "ulimit -v " + std::to_string(bytes / 1024) + " && exec \"$@\"",
                  "sh"}});
  return group.wait()[0];
}

}  // namespace

TEST_CASE("memory that the system refuses is reported with its bytes and those of the plan") {
  // About 300 MB, by far the most of it in one piece: the activations of a shard.
  const Arguments arguments{"--batch=3000", "--lanes=1", "--shards=1", "--max-steps=1",
                            "--checkpoint-every=off"};
  SECTION("the plan passes the limit") {
    const ChildResult result = train_within(204'800'000, arguments);
    CHECK(result.status == 2);
    CHECK_THAT(result.err, Contains("train: a worker needs ") && Contains(" of memory, but ") &&
                               Contains("the limit of a process's address space (ulimit -v) is "
                                        "205 MB: raise it, or use ") &&
                               !Contains("bad_alloc"));
  }
  SECTION("the plan fits, but not with the program and its libraries") {
    WorkerGroup group({.arguments = arguments, .json = false});
    const std::string out = group.wait()[0].out;
    INFO(out);
    REQUIRE_THAT(out, Contains(", memory ") && Contains(" MB, from step 0"));
    const std::uint64_t plan = std::stoull(out.substr(out.find(", memory ") + 9)) * 1'000'000;
    const ChildResult result = train_within(plan + 2'000'000, arguments);
    INFO(result.err);
    CHECK(result.status == 1);
    CHECK_THAT(result.err, Contains("train: error: rank 0: out of memory in training (") &&
                               Contains(" were asked for); this worker needs ") &&
                               Contains("(ulimit -v) is ") && !Contains("bad_alloc"));
    CHECK(result.err.find('\n') == result.err.size() - 1);
  }
}
#endif
