// What a launcher above ddprun finds in the error file that it named.
#include "launcher/report/report_file.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

constexpr std::chrono::system_clock::time_point kEndOfJob{1'767'225'600s};

/// Local rank 1 exits as given; `files` are the error files that were left.
agent::AgentResult failed(ExitStatus exit, std::map<int, std::string> files) {
  agent::AgentResult result;
  result.finished.outcome = proto::Finished::Outcome::failed;
  result.finished.verdict.emplace();
  result.finished.verdict->culprit.failure.local_rank = 1;
  result.finished.verdict->culprit.failure.exit = exit;
  result.error_files = std::move(files);
  return result;
}

constexpr const char* kError =
    R"({"message": {"message": "ValueError: bad lr", "extraInfo": {"timestamp": "17"}}})";

}  // namespace

TEST_CASE("the culprit's error file is copied with its exit code") {
  const auto copy =
      launcher::error_file_copy(failed({false, 3, false}, {{0, "{}"}, {1, kError}}), kEndOfJob);
  REQUIRE(copy.has_value());
  auto expected = nlohmann::json::parse(kError);
  expected["message"]["errorCode"] = 3;
  CHECK(nlohmann::json::parse(*copy) == expected);
}

TEST_CASE("a signal is a negative code, and a message that is a text has none") {
  const auto killed =
      launcher::error_file_copy(failed({true, SIGKILL, false}, {{1, kError}}), kEndOfJob);
  CHECK(nlohmann::json::parse(*killed)["message"]["errorCode"] == -9);
  const auto text = launcher::error_file_copy(
      failed({false, 3, false}, {{1, R"({"message": "bad lr"})"}}), kEndOfJob);
  CHECK(nlohmann::json::parse(*text) == nlohmann::json{{"message", "bad lr"}});
}

TEST_CASE("nothing is copied after a success, or of a culprit that left no error file") {
  CHECK_FALSE(launcher::error_file_copy({}, kEndOfJob));
  CHECK_FALSE(launcher::error_file_copy(failed({false, 3, false}, {{0, kError}}), kEndOfJob));
  CHECK_FALSE(launcher::error_file_copy(failed({false, 3, false}, {{1, "no JSON"}}), kEndOfJob));
}

TEST_CASE("an end that is no worker's fault is recorded as torch records an exception") {
  agent::AgentResult result;
  result.finished.outcome = proto::Finished::Outcome::cancelled;
  result.finished.reason = "stopped by SIGTERM";
  const auto recorded = nlohmann::json::parse(*launcher::error_file_copy(result, kEndOfJob));
  CHECK(recorded["message"]["message"] == "ddprun: stopped by SIGTERM");
  CHECK(recorded["message"]["extraInfo"]["timestamp"] == "1767225600");
}

TEST_CASE("the copy replaces the file, and a folder that does not exist is one line") {
  const test::TempDir folder;
  const std::string path = (folder / "error.json").string();
  std::ofstream(path) << "something older that is longer";
  CHECK(launcher::write_error_file_copy(path, "{}").empty());
  std::ifstream stream(path);
  CHECK(std::string(std::istreambuf_iterator<char>(stream), {}) == "{}\n");
  CHECK_THAT(launcher::write_error_file_copy("/no/such/error.json", "{}"),
             Contains("TORCHELASTIC_ERROR_FILE=/no/such/error.json: ") &&
                 Contains("No such file or directory"));
}
