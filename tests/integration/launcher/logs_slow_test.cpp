// What takes as long as ddprun waits for a reader.
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/job.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a stuck reader of our output stops no worker for good") {
  test::Job job;
  auto settings = job.settings();
  settings.limit = 200s;
  const test::TempDir directory;
  const std::string status = (directory / "status").string();
  // The pipe is unread; the workers write 20 MB each and then leave a sign.
  const std::string script = "{ \"$@\"; echo $? > " + status + "; } | { while [ ! -e " + status +
                             " ]; do sleep 0.05; done; cat; }";
  std::vector<std::string> command{"/bin/sh", "-c", script, "sh"};
  for (const std::string& word :
       test::Job::command({"--nproc-per-node=2"}, {"flood", "20000000", "print", "the end"}))
    command.push_back(word);
  const auto result = test::run(command, settings);
  CHECK_FALSE(result.timed_out);
  std::ifstream file(status);
  int code = -1;
  file >> code;
  CHECK(code == 0);
  CHECK_THAT(result.err, Catch::Matchers::Contains("bytes of the workers' output: a reader"));
}
