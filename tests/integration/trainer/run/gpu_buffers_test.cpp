// Runs over the fake NCCL with the gradients in memory that it knows: the weights are those
// without, and all ranks do it alike. What hangs or fails there is in tests/both/.
#include <catch2/catch.hpp>

#include "tests/integration/trainer/run/gpu_runs.hpp"

using namespace ddprun::test;

namespace {

using Arguments = std::vector<std::string>;
using Catch::Contains;

constexpr const char* kOldest = "libnccl_fake_2_18.so";

Arguments four_steps(const SmallData& data, const Arguments& more) {
  Arguments arguments = short_run(data, {"--max-steps=4", "--checkpoint-every=off"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

struct Ended {
  std::string out, err;  ///< of all ranks
  [[nodiscard]] bool has(const std::string& kind) const {
    return out.find("on emulated GPU (NCCL 2.") != std::string::npos &&
           out.find(" with " + kind + " buffers), V=4") != std::string::npos;
  }
};

/// The texts of ranks that all succeed. `only`: a command of the shell for the rank 1 alone.
Ended run(GroupOptions options, const std::string& only = "true") {
  options.json = false;
  options.prefix = {"/bin/sh", "-c", "test $RANK != 1 || " + only + "; exec \"$@\"", "sh"};
  Ended ended;
  for (const ChildResult& result : WorkerGroup(options).wait()) {
    INFO(result.err);
    CHECK(result.status == 0);
    ended.out += result.out;
    ended.err += result.err;
  }
  return ended;
}

GroupOptions with(GroupOptions options, const std::string& name, const std::string& value) {
  options.environment.emplace_back(name, value);
  return options;
}

}  // namespace

TEST_CASE("weights are the same in NCCL's windows as with an NCCL that has none") {
  const SmallData data;
  for (const Arguments& kind :
       {Arguments{"--no-deterministic"}, Arguments{"--no-deterministic", "--grad-comm=bf16"}}) {
    for (const int workers : {2, 4}) {
      INFO(kind.back() << ", " << workers << " workers");
      const GroupOptions options = on_gpus(four_steps(data, kind), workers);
      CHECK(weights(options) == weights(with(options, "DDPRUN_EMULATED_NCCL", kOldest)));
    }
  }
}

TEST_CASE("with --exact the weights are those of one worker in registered memory, too") {
  const SmallData data;
  const Arguments arguments = four_steps(data, {"--exact"});
  const std::string one = weights(on_gpus(arguments));
  for (const int workers : {2, 4}) {
    const GroupOptions options = on_gpus(arguments, workers);
    CHECK(weights(options) == one);
    CHECK(weights(with(options, "NCCL_LOCAL_REGISTER", "0")) == one);
  }
}

TEST_CASE("the line at the start tells how NCCL knows the gradients' memory") {
  const SmallData data;
  CHECK(run(on_gpus(four_steps(data, {}), 2)).has("plain"));
  CHECK(run(on_gpus(four_steps(data, {"--exact"}), 2)).has("registered"));
  const GroupOptions any = on_gpus(four_steps(data, {"--no-deterministic"}), 2);
  CHECK(run(any).has("window"));
  CHECK(run(with(any, "DDPRUN_EMULATED_NCCL", "libnccl_fake_2_26.so")).has("registered"));
  CHECK(run(with(any, "DDPRUN_EMULATED_NCCL", kOldest)).has("plain"));
  CHECK_THAT(run(on_gpus(four_steps(data, {"--no-deterministic"}))).out, !Contains("NCCL"));
}

TEST_CASE("where one rank cannot do what the others can, none does") {
  const SmallData data;
  const GroupOptions any = with(on_gpus(four_steps(data, {"--no-deterministic"}), 3),
                                "DDPRUN_FAKE_NCCL_VERSION", "22809");
  CHECK(run(any, "export NCCL_WIN_ENABLE=0").has("registered"));
  CHECK(run(any, "export DDPRUN_EMULATED_NCCL=libnccl_fake_2_26.so").has("registered"));
  CHECK(run(any, "export DDPRUN_EMULATED_NCCL=libnccl_fake_2_18.so").has("plain"));
  CHECK(run(any, "export DDPRUN_FAKE_NCCL_MEMORY=none").has("plain"));
  const Ended refused =
      run(on_gpus(four_steps(data, {"--exact"}), 3), "export DDPRUN_FAKE_NCCL=1:register_error");
  CHECK(refused.has("plain"));
  CHECK_THAT(refused.err,
             Contains("train: warning: rank 1: ncclCommRegister on rank 1 (emulated GPU GPU-") &&
                 Contains("all ranks go on with plain buffers"));
}
