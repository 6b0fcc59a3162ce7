#include "launcher/program/python_choice.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/launcher/planned.hpp"
#include "tests/unit/launcher/program/asked_programs.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::test;
using Catch::Matchers::Contains;
using Kind = ProgramChoice::Kind;

TEST_CASE("PYTHON_EXEC is the Python, as a path or as a name on PATH") {
  auto files =
      files_of_a_machine().text("t.py").program("/venv/bin/python").program("/usr/bin/pypy");
  CHECK(chosen(Asked("t.py"), files, {{"PATH", "/usr/bin"}, {"PYTHON_EXEC", "/venv/bin/python"}})
            .file == "/venv/bin/python");
  CHECK(chosen(Asked("t.py"), files, {{"PATH", "/usr/bin"}, {"PYTHON_EXEC", "pypy"}}).file ==
        "/usr/bin/pypy");
  CHECK(chosen(Asked("t.py"), files, {{"PATH", "/usr/bin"}, {"PYTHON_EXEC", ""}}).file ==
        "/usr/bin/python3");
  const auto error =
      refused_program(Asked("t.py"), files, {{"PATH", "/usr/bin"}, {"PYTHON_EXEC", "/no/python"}});
  CHECK(error.exit_code == 127);
  CHECK_THAT(error.message, Contains("PYTHON_EXEC=/no/python"));
}

TEST_CASE(
    "the Python of the environment that ddprun lies in comes before PATH, after PYTHON_EXEC") {
  for (const bool conda : {false, true}) {
    auto files = files_of_a_machine().text("t.py").program("/opt/ddprun/bin/python3");
    if (conda) {
      files.folder("/opt/ddprun/conda-meta");
    } else {
      files.text("/opt/ddprun/pyvenv.cfg", "home = /usr/bin\n");
    }
    const auto choice = chosen(Asked("t.py"), files);
    CHECK(choice.file == "/opt/ddprun/bin/python3");
    CHECK(choice.python == "/opt/ddprun/bin/python3");
    CHECK(choice.argv[0] == "/opt/ddprun/bin/python3");
    CHECK(choice.reason ==
          "a Python file by its name; by the Python of ddprun's own environment, /opt/ddprun");
    const auto other = chosen(Asked("t.py"), files.program("/usr/bin/pypy"),
                              {{"PATH", "/usr/bin"}, {"PYTHON_EXEC", "pypy"}});
    CHECK(other.file == "/usr/bin/pypy");
    CHECK(other.reason == "a Python file by its name; by the Python of PYTHON_EXEC");
  }
}

TEST_CASE(
    "a Python beside ddprun is not its environment's without pyvenv.cfg, nor is one missing") {
  auto files = files_of_a_machine().text("t.py").program("/opt/ddprun/bin/python3");
  CHECK(chosen(Asked("t.py"), files).file == "/usr/bin/python3");
  CHECK(chosen(Asked("t.py"), files).reason == "a Python file by its name");
  CHECK(chosen(Asked("t.py"),
               files_of_a_machine().text("t.py").text("/opt/ddprun/pyvenv.cfg", "home = /usr\n"))
            .file == "/usr/bin/python3");
  auto only_python = files_of_a_machine().text("t.py").text("/opt/ddprun/pyvenv.cfg");
  CHECK(chosen(Asked("t.py"), only_python.program("/opt/ddprun/bin/python")).file ==
        "/opt/ddprun/bin/python");
  Asked nowhere("t.py");
  nowhere.executable_folder.clear();
  CHECK(chosen(nowhere, files.text("pyvenv.cfg").program("python3")).file == "/usr/bin/python3");
}

TEST_CASE("python3 is preferred to python, and none at all is an error that names both") {
  FakeFiles files;
  files.text("t.py").program("/bin/python");
  CHECK(chosen(Asked("t.py"), files).file == "/bin/python");
  files.program("/bin/python3");
  CHECK(chosen(Asked("t.py"), files).file == "/bin/python3");
  const auto error = refused_program(Asked("t.py"), FakeFiles().text("t.py"));
  CHECK(error.exit_code == 127);
  CHECK_THAT(error.message, Contains("python3") && Contains("PYTHON_EXEC"));
}

TEST_CASE("the active environment is known where the workers' Python is not in it") {
  auto files = files_of_a_machine()
                   .text("t.py")
                   .program("/opt/ddprun/bin/python3")
                   .folder("/opt/ddprun/conda-meta")
                   .program("/b/bin/python");
  const auto other = [&](Environment environment, const std::string& name = "t.py") {
    environment["PATH"] = "/usr/bin";
    return chosen(Asked(name), files, environment).other_environment;
  };
  CHECK(other({{"VIRTUAL_ENV", "/b"}}) == "/b");
  CHECK(other({{"CONDA_PREFIX", "/b"}}) == "/b");
  CHECK(other({}).empty());
  CHECK(other({{"VIRTUAL_ENV", "/opt/ddprun"}, {"CONDA_PREFIX", "/b"}}).empty());
  CHECK(other({{"VIRTUAL_ENV", "/without-python"}}).empty());
  files.program("./tool");
  CHECK(other({{"VIRTUAL_ENV", "/b"}}, "./tool").empty());
  files.program("/shims/python");
  CHECK(other({{"VIRTUAL_ENV", "/b"}, {"PYTHON_EXEC", "/shims/python"}}).empty());
}

TEST_CASE("a job says under which Python it runs where another environment is active") {
  Machine machine;
  machine.files.program("/b/bin/python");
  machine.with("VIRTUAL_ENV", "/b");
  const auto notes = planned({"t.py"}, machine).notes;
  REQUIRE(notes.size() == 1);
  CHECK(notes.front() ==
        "the workers run under /usr/bin/python3, not under the active environment /b; to change "
        "that, set PYTHON_EXEC=/b/bin/python");
  CHECK(planned({}, machine).notes.empty());
  CHECK(planned({"t.py"}, machine.with("PYTHON_EXEC", "/usr/bin/python3")).notes.empty());
}
