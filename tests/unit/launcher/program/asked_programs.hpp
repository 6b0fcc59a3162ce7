// Requests for programs on a machine in memory.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "launcher/program/program.hpp"
#include "tests/unit/launcher/fake_files.hpp"

namespace ddprun::launcher::test {

inline const Environment kEnvironment = {{"PATH", "/usr/bin:/bin"}};

/// A machine with Python and ls, and ddprun in /opt/ddprun/bin.
inline FakeFiles files_of_a_machine() {
  FakeFiles files;
  files.program("/usr/bin/python3").program("/bin/ls").folder("/usr/bin").folder("/bin");
  return files;
}

struct Asked : ProgramRequest {
  explicit Asked(const std::string& name) {
    program = name;
    arguments = {"--x", "1"};
    executable_folder = "/opt/ddprun/bin";
  }
  Asked& without_python() { return no_python = true, *this; }
  Asked& as_module() { return module = true, *this; }
};

inline ProgramChoice chosen(const ProgramRequest& request, const FakeFiles& files,
                            const Environment& environment = kEnvironment) {
  const auto choice = resolve_program(request, environment, files);
  if (!choice) FAIL(choice.error().message);
  CHECK_FALSE(choice->reason.empty());
  return *choice;
}

inline LaunchError refused_program(const ProgramRequest& request, const FakeFiles& files,
                                   const Environment& environment = kEnvironment) {
  const auto choice = resolve_program(request, environment, files);
  if (choice) FAIL("was accepted as " + choice->file);
  return choice.error();
}

}  // namespace ddprun::launcher::test
