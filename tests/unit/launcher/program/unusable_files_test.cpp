// Files that neither Python nor the kernel can run.
#include <catch2/catch.hpp>

#include "tests/unit/launcher/program/asked_programs.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::test;
using Catch::Matchers::Contains;
using Kind = ProgramChoice::Kind;

TEST_CASE("a binary file that is not executable is not given to Python") {
  const std::string zeros("\x01\x02\0\0 data", 9);
  for (const std::string name : {"./tool", "tool"}) {
    const auto error = refused_program(Asked(name), files_of_a_machine().text("tool", zeros));
    CHECK(error.exit_code == 126);
    CHECK(error.message == "./tool is a binary file that is not executable: chmod +x ./tool");
  }
  // But for what Python runs: a zip file, a compiled module, and a text in UTF-16 to complain of.
  for (const auto& bytes : {std::string("PK\x03\x04\0\0", 6),
                            std::string("\xa7\x0d\r\n\0\0\0\0", 8), std::string("\xff\xfei\0", 4)})
    CHECK(chosen(Asked("./tool"), files_of_a_machine().text("tool", bytes)).kind ==
          Kind::python_script);
}

TEST_CASE("on a file system mounted noexec chmod is no remedy") {
  const std::string mount = " lies on a file system mounted noexec: ";
  const auto told = [](const std::string& bytes) {
    const auto error =
        refused_program(Asked("./w.sh").without_python(),
                        files_of_a_machine().program("/bin/sh").noexec("w.sh", bytes));
    CHECK(error.exit_code == 126);
    return error.message;
  };
  CHECK(told("#!/bin/sh\nexit 0\n") ==
        "./w.sh" + mount + "type ddprun ... sh ./w.sh ..., or copy it to another one");
  CHECK(told("#!/opt/lua\n") == "./w.sh" + mount + "copy it to another one");
  // Python only reads it.
  CHECK(chosen(Asked("./t.py"), files_of_a_machine().noexec("t.py", "import torch\n")).kind ==
        Kind::python_script);
}

TEST_CASE("env does not find the interpreter of a script with lines that end in CR LF") {
  const std::string first = "#!/usr/bin/env python3\r\n";
  for (const std::string name : {"./t.py", "tool"}) {
    const auto error = refused_program(
        Asked(name).without_python(),
        files_of_a_machine().program("t.py", first).program("/usr/bin/tool", first));
    CHECK(error.exit_code == 126);
    CHECK_THAT(error.message, Contains(": its lines end in CR LF, so env does not find python3; "
                                       "convert it (dos2unix)"));
  }
  CHECK(chosen(Asked("./t.py"), files_of_a_machine().program("t.py", first)).kind ==
        Kind::python_script);
  for (const auto* line : {"#!/usr/bin/env python3\n\r\n", "#!/usr/bin/perl -w\r\n", "env a\r\n"})
    CHECK(chosen(Asked("./t").without_python(), files_of_a_machine().program("t", line)).kind ==
          Kind::file);
}
