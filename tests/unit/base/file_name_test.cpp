#include "base/latest_link.hpp"

#include <catch2/catch.hpp>

using ddprun::file_name_of;

TEST_CASE("a run id is a file name as it is where a file may have that name") {
  CHECK(file_name_of("job-7_b.1") == "job-7_b.1");
  CHECK(file_name_of("two words") == "two words");
  CHECK(file_name_of("\xc3\xbc") == "\xc3\xbc");
}

TEST_CASE("a run id cannot lead out of its folder, hide a file or break a line") {
  CHECK(file_name_of("../../etc") == "_.._.._etc");
  CHECK(file_name_of("/etc") == "_etc");
  CHECK(file_name_of(".hidden") == "_.hidden");
  CHECK(file_name_of("a\nb\x7f") == "a_b_");
}

TEST_CASE("a long run id is cut between two characters") {
  CHECK(file_name_of(std::string(200, 'a')) == std::string(100, 'a'));
  const std::string before(99, 'a');
  CHECK(file_name_of(before + "\xc3\xbc") == before);
  CHECK(file_name_of(before + "b\xc3\xbc") == before + "b");
}
