// Side by side with PyTorch, where a Python with it is at hand: checkpoints load there, and
// torchrun starts `train`.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>

#include "tests/integration/trainer/run/worker_group.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun::test;

namespace {

/// The interpreters that DDPRUN_TEST_PYTHON names, separated by ':'; else the one on PATH and that
/// of build/pytorch-venv, where scripts/install-deps --tests may have put PyTorch.
std::vector<std::string> interpreters() {
  const char* named = std::getenv("DDPRUN_TEST_PYTHON");
  std::istringstream names(named != nullptr ? named : "python3:" DDPRUN_VENV_PYTHON);
  std::vector<std::string> found;
  for (std::string name; std::getline(names, name, ':');) {
    if (!name.empty()) found.push_back(name);
  }
  return found;
}

std::string python_with(const std::string& modules) {
  ChildOptions options;
  options.leave_stdin = true;
  const std::string code =
      "import " + modules +
      "\nimport sys, torch\nsys.exit([int(x) for x in torch.__version__.split('.')[:2]] < [2, 3])";
  for (const std::string& python : interpreters()) {
    if (run({"/usr/bin/env", python, "-c", code}, options).status == 0) return python;
  }
  skip("no Python with " + modules + " 2.3 or newer: DDPRUN_TEST_PYTHON names interpreters");
}

/// An interpreter with a working torchrun: distributions build torch without libuv, which
/// torchrun's own store requires since 2.4.
std::string python_with_torchrun() {
  const std::string python = python_with("torch.distributed.run");
  ChildOptions options;
  options.leave_stdin = true;
  const std::string code =
      "import torch.distributed as d\n"
      "d.TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False)";
  if (run({"/usr/bin/env", python, "-c", code}, options).status != 0) {
    skip("no torchrun that works: torch was built without libuv");
  }
  return python;
}

}  // namespace

TEST_CASE("a checkpoint is an ordinary state_dict, and PyTorch computes the same from it") {
  const std::string python = python_with("torch, safetensors.torch");
  const SmallData data;
  const TempDir directory;
  const std::string line =
      train({.world_size = 2,
             .arguments = three_epochs(data, {"--out", directory / "out", "--lr", "0.1"})});
  ChildOptions options;
  options.leave_stdin = true;
  const ChildResult result =
      run({"/usr/bin/env", python, DDPRUN_CHECK_CHECKPOINT, directory / "out" / "latest",
           data.path(), field(line, "test_loss"), field(line, "test_accuracy")},
          options);
  INFO(result.out << result.err);
  CHECK(result.status == 0);
}

TEST_CASE("train runs under torchrun, with the agent's store, and ends with the same bits") {
  const std::string python = python_with_torchrun();
  const SmallData data;
  const TempDir directory;
  const std::string base = undisturbed(data);
  std::vector<std::string> command{
      "/usr/bin/env",       python,         "-m",          "torch.distributed.run",
      "--nproc-per-node=2", "--standalone", "--no-python", program("train")};
  for (const std::string& argument :
       three_epochs(data, {"--checkpoint-every", "off", "--json", "--quiet"})) {
    command.push_back(argument);
  }
  ChildOptions options;
  options.leave_stdin = true;
  options.directory = directory.path();
  const ChildResult result = run(command, options);
  INFO(result.out << result.err);
  REQUIRE(result.status == 0);
  CHECK(field(last_line(result.out), "weights") == base);
}

TEST_CASE("torchrun restarts train after a kill, and it resumes from its checkpoint") {
  const std::string python = python_with_torchrun();
  const SmallData data;
  const TempDir directory;
  const std::string base = undisturbed(data);
  // In the first round rank 1 is killed as soon as there is a checkpoint.
  const std::string wrapper =
      "if [ \"$TORCHELASTIC_RESTART_COUNT\" = 0 ] && [ \"$RANK\" = 1 ]; then \"$0\" \"$@\" & "
      "while ! [ -e out/latest ]; do sleep 0.01; done; kill -9 $!; exit 1; fi; exec \"$0\" \"$@\"";
  std::vector<std::string> command{"/usr/bin/env",
                                   python,
                                   "-m",
                                   "torch.distributed.run",
                                   "--nproc-per-node=2",
                                   "--standalone",
                                   "--max-restarts=2",
                                   "--no-python",
                                   "/bin/sh",
                                   "-c",
                                   wrapper,
                                   program("train")};
  for (const std::string& argument :
       three_epochs(data, {"--checkpoint-every", "1", "--out", "out", "--json", "--quiet"})) {
    command.push_back(argument);
  }
  ChildOptions options;
  options.leave_stdin = true;
  options.directory = directory.path();
  const ChildResult result = run(command, options);
  INFO(result.out << result.err);
  REQUIRE(result.status == 0);
  CHECK(field(last_line(result.out), "weights") == base);
  CHECK(field(last_line(result.out), "restarts") == "1");
}
