// What is typed out of habit from other launchers and programs, and what is answered.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "launcher/options/options.hpp"

using namespace ddprun::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

LaunchOptions taken_options(const std::vector<std::string>& arguments) {
  const auto options = parse_launch_options(arguments, {});
  REQUIRE(options.has_value());
  return *options;
}

std::string answer_to(const std::vector<std::string>& arguments) {
  const auto options = parse_launch_options(arguments, {});
  REQUIRE_FALSE(options.has_value());
  return options.error().message;
}

}  // namespace

TEST_CASE("options of other launchers are answered with what to type here") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"--num_processes", "2", "s.py"}, "did you mean --nproc-per-node=2?"},
      {{"--num_gpus=2", "s.py"}, "did you mean --nproc-per-node=2?"},
      {{"--num_nodes", "s.py"}, "did you mean --nnodes=N?"},
      {{"--multi_gpu", "s.py"}, "leave it out"},
      {{"--mixed_precision", "bf16", "s.py"}, "ACCELERATE_MIXED_PRECISION=bf16"},
      {{"--mixed_precision=fp16", "s.py"}, "ACCELERATE_MIXED_PRECISION=fp16"},
      {{"--use_fsdp", "s.py"}, "docs/torchrun.md"},
      {{"--fsdp_offload_params", "s.py"}, "docs/torchrun.md"},
      {{"--np", "4", "s.py"}, "did you mean --nproc-per-node=4?"},
      {{"--num-workers=4", "s.py"}, "did you mean --nproc-per-node=4?"},
      {{"--retries", "3", "s.py"}, "did you mean --max-restarts=3?"},
      {{"--machine_rank", "s.py"}, "did you mean --node-rank=RANK?"},
      {{"--allow-run-as-root", "s.py"}, "leave it out"},
      {{"--verbose", "s.py"}, "did you mean --log-level=debug?"},
  };
  for (const auto& [arguments, expected] : cases) {
    const std::string message = answer_to(arguments);
    INFO(message);
    CHECK_THAT(message, StartsWith("unknown option --") && Contains(expected));
  }
  CHECK(answer_to({"-H", "s.py"}) == "unknown option -H; did you mean --hosts=HOST,...?");
  CHECK(answer_to({"-x", "NAME", "s.py"}) == "unknown option -x; did you mean --pass-env=NAME?");
  CHECK_THAT(answer_to({"--log", "p"}),
             StartsWith("--log is ambiguous: it could be ") && !Contains("--elastic-level"));
}

TEST_CASE("what to type instead of an option has the value that was typed") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"--gpu_ids", "2,3", "s.py"}, "--gpus=2,3?"},
      {{"--gpu_ids=1,4,5", "s.py"}, "--gpus=1,4,5?"},
      {{"--gpu-ids", "all", "s.py"}, "--gpus=all?"},
      {{"--gpu-ids", "s.py", "1"}, "--gpus=LIST?"},
      {{"--ssh-args=-p 2200", "s.py"}, "--ssh='ssh -p 2200'?"},
      {{"--ssh-args", "-p 2200", "s.py"}, "--ssh='ssh -p 2200'?"},
      {{"--ssh-args"}, "--ssh='ssh OPTIONS'?"},
      {{"-H", "a:2,b:2", "s.py"}, "--hosts=a:2,b:2?"},
      {{"--machinefile", "my hosts", "s.py"}, "--hostfile='my hosts'?"},
      {{"--machine_rank=1", "s.py"}, "--node-rank=1?"},
      {{"--main_process_ip", "10.0.0.1", "s.py"}, "--master-addr=10.0.0.1?"},
      {{"--job-name", "night", "s.py"}, "--rdzv-id=night?"},
      {{"--job-name", "s.py"}, "--rdzv-id=ID?"},
      {{"-x", "NAME=a b", "s.py"}, "--pass-env='NAME=a b'?"},
      {{"--num-processes", "s.py", "2"}, "--nproc-per-node=N?"},
      {{"--bind-to", "socket", "s.py"}, "--numa-binding=socket?"},
      {{"--bind-to=l3cache", "s.py"}, "--numa-binding=core-complex?"},
      {{"--bind-to", "core", "s.py"}, "--numa-binding=node?"},
  };
  for (const auto& [arguments, expected] : cases) {
    const std::string message = answer_to(arguments);
    INFO(message);
    CHECK_THAT(message, Contains("did you mean " + expected));
  }
  CHECK_THAT(answer_to({"--bind-to", "none", "s.py"}), Contains("leave it out"));
  CHECK_THAT(answer_to({"--mixed_precision", "fp16", "s.py"}), Contains("PRECISION=fp16 "));
}

TEST_CASE("torchrun as PROGRAM is refused, for ddprun takes its place") {
  const std::string answer =
      " would start workers of its own in each worker: leave it out, ddprun takes the same "
      "options: "
      "ddprun [OPTIONS] PROGRAM";
  CHECK(answer_to({"torchrun", "--nproc_per_node=2", "s.py"}) ==
        "torchrun" + answer + " (for a file of that name type ./torchrun)");
  CHECK(answer_to({"--nproc_per_node=2", "-m", "torch.distributed.run", "s.py"}) ==
        "-m torch.distributed.run" + answer);
  CHECK(answer_to({"python3", "-m", "torch.distributed.launch", "s.py"}) ==
        "python3 -m torch.distributed.launch" + answer);
  CHECK(taken_options({"./torchrun", "s.py"}).program.name == "./torchrun");
  CHECK(taken_options({"torch.distributed.run"}).program.name == "torch.distributed.run");
  CHECK(taken_options({"python3", "-m", "other", "torch.distributed.run"}).program.name ==
        "python3");
  CHECK(taken_options({"accelerate", "launch", "s.py"}).program.name == "accelerate");
}

TEST_CASE("the help may have a topic, and -V is --version") {
  CHECK(taken_options({"--help", "nonsense"}).texts.topic.empty());
  for (const std::string word : {"--help", "-h"})
    CHECK(taken_options({word, "tee", "--x"}).texts.word_behind == "tee");
  CHECK(taken_options({"--help", "--tee"}).texts.word_behind.empty());
  CHECK(taken_options({"--help=tee", "run.py"}).texts.word_behind.empty());
  CHECK(taken_options({"--version", "tee"}).texts.word_behind.empty());
  CHECK(taken_options({"--help"}).request == Request::help);
  CHECK(taken_options({"-h"}).request == Request::short_help);
  for (const std::string word : {"--help=tee", "-h=tee", "--hel=tee"}) {
    CHECK(taken_options({word}).request == Request::help);
    CHECK(taken_options({word}).texts.topic == "tee");
  }
  CHECK(taken_options({"-V"}).request == Request::version);
}
