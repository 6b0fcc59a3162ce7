// Error files, as PyTorch and others write them, and what is none.
#include "agent/evidence/error_file.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <random>

#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::agent;

TEST_CASE("an error file of torch's record decorator gives message and traceback") {
  const auto error = parse_error_file(
      R"({"message": {"message": "ValueError: bad lr", "extraInfo": {"py_callstack":
          "Traceback:\n  line\nValueError: bad lr\n", "timestamp": "1767225600"}}})");
  REQUIRE(error.has_value());
  CHECK(error->message == "ValueError: bad lr");
  CHECK(error->callstack == std::vector<std::string>{"Traceback:", "  line", "ValueError: bad lr"});
  CHECK(parse_error_file(R"({"message": "plain", "timestamp": 3})")->message == "plain");
  CHECK(parse_error_file(R"({"message": {}})")->message.empty());
}

TEST_CASE("of a long traceback the end is kept") {
  std::string text;
  for (int i = 1; i <= 250; ++i) text += std::to_string(i) + "\\n";
  const auto error = parse_error_file(
      R"({"message": {"message": "m", "extraInfo": {"py_callstack": ")" + text + "\"}}}");
  REQUIRE(error.has_value());
  REQUIRE(error->callstack.size() == 200);
  CHECK(error->callstack.front() == "51");
  CHECK(error->callstack.back() == "250");
}

TEST_CASE("an invalid error file counts as none and never throws") {
  for (const std::string text :
       {"", "{", "[]", "null", "{}", "{\"message\": 3}", "{\"message\": [1]}", "\xff\xfe",
        "{\"message\": {\"message\": 5, \"extraInfo\": []}"}) {
    INFO(text);
    CHECK_FALSE(parse_error_file(text).has_value());
  }
  std::mt19937 random(7);
  const std::string whole =
      R"({"message": {"message": "m", "extraInfo": {"py_callstack": "a\nb", "timestamp": "1"}}})";
  for (int i = 0; i < 5000; ++i) {
    std::string text = whole;
    for (int change = 0; change < 3; ++change)
      text[random() % text.size()] = static_cast<char>(random());
    text.resize(random() % (text.size() + 1));
    parse_error_file(text);
  }
  CHECK_FALSE(parse_error_file(std::string(100'000, '[')).has_value());
}

TEST_CASE("an invalid error file gives a reason and a missing one gives none") {
  const test::TempDir folder;
  CHECK_FALSE(read_error_file("").has_value());
  CHECK_FALSE(read_error_file((folder / "absent").string()).has_value());
  std::ofstream(folder / "large") << std::string(kErrorFileBytesMax + 1, ' ');
  CHECK(read_error_file((folder / "large").string())->problem.find("larger") != std::string::npos);
  std::ofstream(folder / "garbage") << "oops";
  CHECK_FALSE(read_error_file((folder / "garbage").string())->problem.empty());
  CHECK_FALSE(read_error_file(folder.path().string())->problem.empty());
  std::ofstream(folder / "good") << R"({"message": "m"})";
  CHECK(read_error_file((folder / "good").string())->error.message == "m");
}
