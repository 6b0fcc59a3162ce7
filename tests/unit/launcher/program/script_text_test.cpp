// Scripts of shells and other interpreters as PROGRAM.
#include "launcher/program/script_text.hpp"

#include <catch2/catch.hpp>

#include "launcher/program/program.hpp"
#include "tests/unit/launcher/fake_files.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::test;
using Catch::Matchers::Contains;

namespace {

const Environment kPath = {{"PATH", "/usr/bin:/bin"}};

ProgramRequest script_request(const std::string& name) {
  ProgramRequest request;
  request.program = name;
  request.arguments = {"--x", "1"};
  return request;
}

std::string refusal(const std::string& name, const FakeFiles& files) {
  const auto choice = resolve_program(script_request(name), kPath, files);
  if (choice) FAIL("was accepted as " + choice->file);
  CHECK(choice.error().exit_code >= 126);
  return choice.error().message;
}

}  // namespace

TEST_CASE("a script's first line names its interpreter") {
  CHECK(interpreter_of("#!/bin/bash\necho\n") == "bash");
  CHECK(interpreter_of("#! /bin/sh\r\n") == "sh");
  // With these the script would behave in another way under the interpreter alone.
  CHECK(interpreter_of("#! /bin/sh -e\r\n").empty());
  CHECK(interpreter_of("#!/usr/bin/env -S zsh -e").empty());
  CHECK(interpreter_of("#!/usr/bin/env FOO=1 bash").empty());
  CHECK(interpreter_of("#!/usr/bin/env python3") == "python3");
  CHECK(interpreter_of("#!/usr/bin/env\n").empty());
  CHECK(interpreter_of("#!\n").empty());
  CHECK(interpreter_of("echo hi\n").empty());
}

TEST_CASE("a script that cannot be executed is refused with the command that runs it") {
  const auto files = FakeFiles().program("/bin/bash");
  CHECK(refusal("run.sh", FakeFiles(files).text("run.sh", "echo hi\n")) ==
        "./run.sh is a shell script that is not executable: type ddprun ... bash run.sh ...");
  CHECK(refusal("a/run.sh", FakeFiles(files).text("a/run.sh", "#!/bin/bash\n")) ==
        "a/run.sh is a script of another interpreter (#!/bin/bash) that is not executable: type "
        "ddprun ... bash a/run.sh ..., or chmod +x a/run.sh and ddprun ... a/run.sh");
  for (const std::string line : {"#!/bin/bash -e", "#!/opt/bin/lua"})
    CHECK(refusal("a/run.sh", FakeFiles(files).text("a/run.sh", line + "\n")) ==
          "a/run.sh is a script of another interpreter (" + line +
              ") that is not executable: chmod +x a/run.sh");
  CHECK_THAT(refusal("a b/run.sh", FakeFiles(files).text("a b/run.sh", "echo hi\n")),
             Contains("type ddprun ... bash 'a b/run.sh' ..."));
  // Executable, but for the kernel it is no program: nothing tells it the interpreter.
  for (const std::string name : {"run.sh", "./run.sh"}) {
    CHECK(refusal(name, FakeFiles(files).program("run.sh", "echo hi\n")) ==
          name + " is a shell script without a first line like #!/bin/bash: type ddprun ... bash " +
              name + " ..., or add that line");
  }
  CHECK(refusal("run.sh", FakeFiles(files).program("/bin/run.sh", "echo hi\n")) ==
        "/bin/run.sh is a shell script without a first line like #!/bin/bash: type ddprun ... bash "
        "run.sh ..., or add that line");
  CHECK(resolve_program(script_request("run.sh"), kPath,
                        FakeFiles(files).program("/bin/run.sh", "#!/bin/sh\n"))
            .has_value());
  const auto choice = resolve_program(script_request("./run.sh"), kPath,
                                      FakeFiles(files).program("run.sh", "#!/bin/sh\n"));
  REQUIRE(choice.has_value());
  CHECK(choice->file == "./run.sh");
  CHECK_THAT(refusal("run.sh", FakeFiles(files).program("run.sh", "#!/bin/sh\n")),
             Contains("not found on PATH; for the one in the current folder type ./run.sh"));
}
