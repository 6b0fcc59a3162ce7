// Where workers' output goes with --log-dir, --redirects, --tee and their filters.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/job.hpp"

using namespace ddprun;
using Lines = std::vector<std::string>;
using test::Job;
using test::sorted_lines;

namespace {

/// A folder given as --log-dir, and what the newest run left there.
class Logs {
 public:
  [[nodiscard]] std::string option() const { return "--log-dir=" + folder_.path().string(); }
  [[nodiscard]] std::filesystem::path newest() const { return folder_ / "latest"; }
  [[nodiscard]] std::string text(const std::string& file) const {
    std::ifstream stream(newest() / file);
    if (!stream) return "no file " + file;
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  [[nodiscard]] bool has(const std::string& file) const {
    return std::filesystem::exists(newest() / file);
  }
  [[nodiscard]] const test::TempDir& folder() const { return folder_; }

 private:
  test::TempDir folder_;
};

}  // namespace

TEST_CASE("redirected streams are in files by restart and local rank and not here") {
  const Logs logs;
  const auto result =
      Job().run({logs.option(), "--nproc-per-node=2", "--redirects=0:3,1:2", "--max-restarts=1"},
                {"print", "out", "print-err", "err", "round", "0", "rank", "0", "exit", "1"});
  CHECK(result.status == 0);
  CHECK(logs.text("attempt_0/0/stdout.log") == "out\n");
  CHECK(logs.text("attempt_0/0/stderr.log") == "err\n");
  CHECK(logs.text("attempt_1/0/stdout.log") == "out\n");
  CHECK(logs.text("attempt_1/1/stderr.log") == "err\n");
  CHECK_FALSE(logs.has("attempt_1/1/stdout.log"));
  CHECK(sorted_lines(result.out).back() == "[rank1] out");
  CHECK(result.out.find("[rank0]") == std::string::npos);
  CHECK(result.err.find("err") == result.err.npos);
}

TEST_CASE("teed streams are here with torchrun's prefix and whole in their files") {
  const Logs logs;
  const auto result = Job().run({logs.option(), "--nproc-per-node=2", "--tee=3", "--role=trainer"},
                                {"print", "out", "print-err", "err"});
  CHECK(result.status == 0);
  CHECK(sorted_lines(result.out) == Lines{"[trainer0]:out", "[trainer1]:out"});
  CHECK(sorted_lines(result.err) == Lines{"[trainer0]:err", "[trainer1]:err"});
  CHECK(logs.text("attempt_0/1/stdout.log") == "out\n");
  CHECK(logs.text("attempt_0/0/stderr.log") == "err\n");
}

TEST_CASE("the filter keeps ranks from the console and not from their files") {
  const Logs logs;
  const auto result =
      Job().run({logs.option(), "--nproc-per-node=3", "--tee=0:1,1:1", "--local-ranks-filter=0"},
                {"print", "out"});
  CHECK(result.out == "[default0]:out\n");
  CHECK(logs.text("attempt_0/1/stdout.log") == "out\n");
}

TEST_CASE("lines that a duplicate filter finds are gathered with their prefix") {
  const Logs logs;
  Job().run({logs.option(), "--nproc-per-node=2", "--tee=3", "--duplicate-stdout-filters=loss,,x"},
            {"print", "the loss,x is 1", "print", "loss", "print-err", "loss,x"});
  CHECK(sorted_lines(logs.text("attempt_0/filtered_stdout.log")) ==
        Lines{"[default0]:the loss,x is 1", "[default1]:the loss,x is 1"});
  CHECK_FALSE(logs.has("attempt_0/filtered_stderr.log"));
}

TEST_CASE("megabytes of teed lines reach their file whole and in order") {
  const Logs logs;
  const auto result = Job().run({logs.option(), "--tee=1"}, {"flood", "3000000"});
  CHECK(result.status == 0);
  const std::string text = logs.text("attempt_0/0/stdout.log");
  CHECK(text.size() == 3'000'000);
  CHECK(text.back() == '\n');
  CHECK(text.find("\n\n") == std::string::npos);
}

TEST_CASE("the culprit's last lines come from its file when its stderr went there") {
  const Logs logs;
  const auto result =
      Job().run({logs.option(), "--nproc-per-node=2", "--redirects=3"},
                {"rank", "1", "print-err", "first", "print-err", "last words", "exit", "3"});
  CHECK(result.status == 3);
  CHECK(result.err.find("    first\n    last words\n") != std::string::npos);
}

TEST_CASE("error files are in the log folder where there is one") {
  const Logs logs;
  const auto result = Job().run({logs.option()}, {"env", "TORCHELASTIC_ERROR_FILE"});
  CHECK(result.out.find(logs.folder().path().string()) != std::string::npos);
  CHECK(result.out.find("/attempt_0/0/error.json\n") != std::string::npos);
}

TEST_CASE("every run has a folder of its own and latest leads to the newest") {
  const Logs logs;
  for (const char* word : {"one", "two"})
    Job().run({logs.option(), "--rdzv-id=a/b", "--redirects=1"}, {"print", word});
  CHECK(logs.text("attempt_0/0/stdout.log") == "two\n");
  int folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(logs.folder().path())) {
    if (entry.path().filename().string().starts_with("a_b_")) ++folders;
  }
  CHECK(folders == 2);
}

TEST_CASE("without a log folder files go to a new one that is said and stays") {
  test::TempDir base;
  test::ChildOptions settings;
  settings.environment = {{"TMPDIR", base.path().string()}};
  const auto result = test::run(Job::command({"--redirects=1"}, {"print", "kept"}), settings);
  CHECK(result.status == 0);
  REQUIRE(result.err.find("ddprun: logs are in " + base.path().string()) == 0);
  const auto end = result.err.find(" (see --log-dir)");
  const std::string folder = result.err.substr(20, end - 20);
  std::ifstream file(folder + "/attempt_0/0/stdout.log");
  std::string line;
  CHECK(std::getline(file, line));
  CHECK(line == "kept");
}

TEST_CASE("a log folder that cannot be made is refused before anything starts") {
  test::TempDir base;
  std::ofstream(base / "file") << "x";
  for (const std::string folder : {"/proc/ddprun", "/dev/null/x"}) {
    const auto result = Job().run({"--log-dir=" + folder, "--redirects=1"}, {"print", "started"});
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.err.find("--log-dir: cannot make a folder in " + folder) != std::string::npos);
  }
  const auto result = Job().run({"--log-dir=" + (base / "file").string()}, {"print", "started"});
  CHECK(result.status == 2);
}

TEST_CASE("a file that cannot be opened is said and its worker runs on with our own output") {
  const Logs logs;
  // A line of a shell: the folder of the next attempt is in the way as a file.
  const auto result = test::run(
      {test::program("ddprun"), logs.option(), "--redirects=1", "--max-restarts=1", "/bin/sh", "-c",
       "[ $DDPRUN_ROUND = 1 ] && echo visible && exit 0; echo x > $(dirname $(dirname $(dirname "
       "$TORCHELASTIC_ERROR_FILE)))/attempt_1; exit 1"},
      Job().settings());
  CHECK(result.status == 0);
  CHECK(result.out == "visible\n");
  CHECK(result.err.find("attempt_1/0/stdout.log") != std::string::npos);
}
