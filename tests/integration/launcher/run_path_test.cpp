// --run-path with a real Python: the file ends as a child of multiprocessing, which torchrun's is.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/job.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kScript = R"(import atexit, ctypes, sys, threading, time
def late():
    time.sleep(0.1)
    print("thread done")
atexit.register(lambda: print("atexit ran"))
threading.Thread(target=late).start()
print(__name__, sys.argv[1:], end=" ")
what = sys.argv[1]
if what == "raise": raise ValueError("bad lr")
if what == "nothing": sys.exit()
if what == "text": sys.exit("some text")
if what == "interrupt": raise KeyboardInterrupt
if what == "float": sys.exit(2.5)
if what == "true": sys.exit(True)
if what == "large": sys.exit(300)
if what == "negative": sys.exit(-1)
# As torch's, which aborts when it is destroyed at a bad moment.
if what == "abort": ctypes.CDLL(None).__cxa_atexit(ctypes.CDLL(None).abort, None, None)
)";

test::ChildResult run_file(const std::string& how, const std::string& what) {
  if (access("/usr/bin/python3", X_OK) != 0) test::skip("no /usr/bin/python3 here");
  const test::TempDir folder;
  const std::string path = (folder / "t").string();
  std::ofstream(path) << kScript;
  test::Job job;
  auto settings = job.settings();
  settings.environment.emplace_back("PYTHON_EXEC", "/usr/bin/python3");
  std::vector<std::string> words{test::program("ddprun")};
  if (!how.empty()) words.push_back(how);
  words.insert(words.end(), {path, what});
  return test::run(words, settings);
}

}  // namespace

TEST_CASE("a file under --run-path has the exit code of a child of multiprocessing") {
  const std::vector<std::pair<std::string, int>> ends{
      {"return", 0}, {"raise", 1}, {"nothing", 0}, {"text", 1},      {"interrupt", 1},
      {"float", 1},  {"true", 1},  {"large", 44},  {"negative", 255}};
  for (const auto& [what, code] : ends) {
    INFO(what);
    const auto result = run_file("--run-path", what);
    CHECK(result.status == code);
    CHECK(result.out == "__main__ ['" + what + "'] thread done\natexit ran\n");
  }
}

TEST_CASE("an exception under --run-path is in the error file without the frames of the runner") {
  const auto result = run_file("--run-path", "raise");
  CHECK_THAT(result.err,
             Contains("evidence: its error file") && Contains(": ValueError: bad lr\n"));
  CHECK_THAT(result.err, Contains("in <module>\n"));
  CHECK_THAT(result.err, !Contains("runpy"));
}

TEST_CASE("destructors of C++ libraries do not run at the end of --run-path") {
  CHECK(run_file("--run-path", "abort").status == 0);
  CHECK(run_file("", "abort").status == 134);
}
