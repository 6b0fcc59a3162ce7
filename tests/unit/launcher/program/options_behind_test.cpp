#include "launcher/program/options_behind.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/launcher/planned.hpp"

using namespace ddprun::launcher;
using ddprun::launcher::test::FakeFiles;
using Words = std::vector<std::string>;

namespace {

constexpr const char* kSource =
    "import argparse\n"
    "parser = argparse.ArgumentParser()\n"
    "parser.add_argument('--lr', type=float)\n";

std::string warning(const Words& arguments, const std::string& source = kSource,
                    ProgramChoice::Kind kind = ProgramChoice::Kind::python_script) {
  FakeFiles files;
  files.text("ok.py", source);
  ProgramChoice choice{.kind = kind,
                       .name = "ok.py",
                       .file = "/usr/bin/python3",
                       .argv = {"/usr/bin/python3", "-u", "ok.py"},
                       .python = "/usr/bin/python3",
                       .reason = "a test"};
  choice.argv.insert(choice.argv.end(), arguments.begin(), arguments.end());
  return launcher_options_behind(choice, arguments.size(), files);
}

}  // namespace

TEST_CASE("an option that only launchers have is warned about where it stands behind a script") {
  CHECK(warning({"--lr=1", "--nproc_per_node=2"}) ==
        "--nproc_per_node stands behind ok.py, so ddprun passes it to ok.py; options of ddprun "
        "stand before the program");
  CHECK(warning({"--nnodes", "2", "--node_rank", "0"}) ==
        "--nnodes, --node_rank stand behind ok.py, so ddprun passes them to ok.py; options of "
        "ddprun stand before the program");
  for (const auto* option : {"--nproc-per-node", "--rdzv_id=a", "--rdzv-conf=timeout=3",
                             "--max_restarts=3", "--standalone"}) {
    CAPTURE(option);
    CHECK_FALSE(warning({option}).empty());
  }
}

TEST_CASE("options that scripts have themselves are no reason for a warning") {
  CHECK(warning({}).empty());
  CHECK(warning({"--lr=1", "nnodes", "-m", "--gpus=2", "--output=x", "--log-dir=x",
                 "--master_addr=a", "--module", "--role=a"})
            .empty());
  CHECK(warning({"--", "--nnodes=2"}).empty());
}

TEST_CASE("a script that declares the option itself gets no warning about it") {
  const std::string declares = "p.add_argument('--nnodes', type=int)\n";
  CHECK(warning({"--nnodes=2"}, declares).empty());
  CHECK(warning({"--nproc-per-node=2"}, "@click.option('--nproc_per_node')").empty());
  CHECK(warning({"--nnodes=2", "--max-restarts=3"}, declares).starts_with("--max-restarts stands"));
  CHECK_FALSE(warning({"--nnodes=2"}, "# torchrun --nnodes=2 ok.py").empty());
}

TEST_CASE("of programs that are no Python scripts it is not known what their options are") {
  for (const auto kind :
       {ProgramChoice::Kind::file, ProgramChoice::Kind::path, ProgramChoice::Kind::bundled})
    CHECK(warning({"--nproc_per_node=2"}, kSource, kind).empty());
  CHECK_FALSE(warning({"--nproc_per_node=2"}, kSource, ProgramChoice::Kind::python_module).empty());
}

TEST_CASE("the warning about options behind the script comes with the plan") {
  ddprun::launcher::test::Machine machine;
  machine.files.text("ok.py", kSource);
  const auto plan = ddprun::launcher::test::planned({"ok.py", "--nproc_per_node=2"}, machine);
  REQUIRE(plan.warnings.size() == 1);
  CHECK(plan.warnings.front().starts_with("--nproc_per_node stands behind ok.py"));
  CHECK(plan.agent.workers.size() == 1);
}
