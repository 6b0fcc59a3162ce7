// `ddprun doctor`: a word that people try, and no program.
#include <catch2/catch.hpp>
#include <string>

#include "launcher/program/program.hpp"
#include "tests/unit/launcher/fake_files.hpp"

using namespace ddprun::launcher;
using ddprun::launcher::test::FakeFiles;

namespace {

std::string told(const FakeFiles& files) {
  ProgramRequest request;
  request.program = "doctor";
  request.executable_folder = "/opt/ddprun/bin";
  const auto choice = resolve_program(request, {{"PATH", "/usr/bin:/bin"}}, files);
  if (choice) FAIL("was accepted as " + choice->file);
  CHECK(choice.error().exit_code == 127);
  return choice.error().message;
}

/// ddprun with the Python package in `place`, which ends with a slash.
FakeFiles with_package(const std::string& place) {
  return FakeFiles()
      .folder("/opt/ddprun/lib/python3.11")
      .text("/opt/ddprun/" + place + "ddprun/doctor.py");
}

FakeFiles& in_environment(FakeFiles&& files) {
  return files.text("/opt/ddprun/pyvenv.cfg").program("/opt/ddprun/bin/python3");
}

const std::string kFound = "doctor: not found; did you mean ";
const std::string kWheelOnly =
    "doctor: not found; it is a Python module that comes only with the wheel of ddprun, see "
    "docs/install.md";

}  // namespace

TEST_CASE("for the doctor the Python is named in which ddprun is installed") {
  CHECK(told(in_environment(with_package("lib/python3.11/site-packages/"))) ==
        kFound + "/opt/ddprun/bin/python3 -m ddprun.doctor?");
  // pip install --user, pip of Debian as root, pip install --target.
  CHECK(told(with_package("lib/python3.11/site-packages/")) ==
        kFound + "python3.11 -m ddprun.doctor?");
  CHECK(told(with_package("lib/python3.11/dist-packages/")) ==
        kFound + "python3.11 -m ddprun.doctor?");
  CHECK(told(FakeFiles()
                 .folder("/opt/ddprun/lib64/python3.9")
                 .text("/opt/ddprun/lib64/python3.9/site-packages/ddprun/doctor.py")) ==
        kFound + "python3.9 -m ddprun.doctor?");
  CHECK(told(with_package("")) == kFound + "PYTHONPATH=/opt/ddprun python3 -m ddprun.doctor?");
}

TEST_CASE("a ddprun without the Python package answers that the doctor is in the wheel") {
  CHECK(told(FakeFiles()) == kWheelOnly);
  CHECK(told(in_environment(FakeFiles())) == kWheelOnly);
}
