// Slurm's lists of hosts. hostlist_slow_test.cpp compares with Slurm's own program.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "launcher/cluster/hostlist.hpp"

using Catch::Matchers::StartsWith;
using ddprun::launcher::Hostlist;

namespace {

std::vector<std::string> hosts(const std::string& text) {
  const auto list = Hostlist::parse(text);
  if (!list) FAIL(text << ": " << list.error());
  std::vector<std::string> names;
  for (std::uint64_t place = 0; place < list->size(); ++place) names.push_back(list->name(place));
  return names;
}

std::string problem(const std::string& text) {
  const auto list = Hostlist::parse(text);
  if (list) FAIL(text << " was accepted");
  return list.error();
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("hosts are named one by one, by ranges, and by both with an end") {
  CHECK(hosts("a") == Names{"a"});
  CHECK(hosts("a,b.example.org") == Names{"a", "b.example.org"});
  CHECK(hosts("a[1-3,07-09]-ib,b") ==
        Names{"a1-ib", "a2-ib", "a3-ib", "a07-ib", "a08-ib", "a09-ib", "b"});
  CHECK(hosts("[1-3]") == Names{"1", "2", "3"});
  CHECK(hosts("a-[1]") == Names{"a-1"});
}

TEST_CASE("a range has as many digits as its first number at least") {
  CHECK(hosts("a[8-10]") == Names{"a8", "a9", "a10"});
  CHECK(hosts("a[08-10]") == Names{"a08", "a09", "a10"});
  CHECK(hosts("a[098-101]") == Names{"a098", "a099", "a100", "a101"});
  CHECK(hosts("a[003-5]") == Names{"a003", "a004", "a005"});
  CHECK(hosts("a[1-03]") == Names{"a1", "a2", "a3"});
  CHECK(hosts("a[00]") == Names{"a00"});
  CHECK(hosts("a[20240101001-20240101002]") == Names{"a20240101001", "a20240101002"});
}

TEST_CASE("of several brackets in a name the last one counts fastest, and then the first one") {
  CHECK(hosts("r[1-2]n[3-4]") == Names{"r1n3", "r1n4", "r2n3", "r2n4"});
  CHECK(hosts("a[1-2][3-4]") == Names{"a13", "a14", "a23", "a24"});
  CHECK(hosts("x,r[1,3]n[05-06]s[7]z,y") ==
        Names{"x", "r1n05s7z", "r3n05s7z", "r1n06s7z", "r3n06s7z", "y"});
  CHECK(hosts("b[1-2]c[1-2]a[1-2]") ==
        Names{"b1c1a1", "b1c1a2", "b2c1a1", "b2c1a2", "b1c2a1", "b1c2a2", "b2c2a1", "b2c2a2"});
}

TEST_CASE("a host that is named twice counts twice, and nothing between separators is no host") {
  CHECK(hosts("a[1,1],a1") == Names{"a1", "a1", "a1"});
  CHECK(hosts(" a,,b\t, c,\n") == Names{"a", "b", "c"});
}

TEST_CASE("broken brackets are refused with their place") {
  CHECK(problem("a[1-3") == "character 2: '[' is not closed");
  CHECK(problem("b,a[1-3,b") == "character 4: '[' is not closed");
  CHECK(problem("a]") == "character 2: ']' without '['");
  CHECK(problem("a[1]]") == "character 5: ']' without '['");
  CHECK(problem("a[]") == "character 3: expected a number");
  CHECK(problem("a[1,]") == "character 5: expected a number");
  CHECK(problem("a[1[2]]") == "character 4: expected a number, ',' or ']'");
  CHECK(problem("a[x-y]") == "character 3: expected a number");
  CHECK(problem("a[1--2]") == "character 5: expected a number");
  CHECK(problem("a[-2]") == "character 3: expected a number");
  CHECK(problem("a[1-2-3]") == "character 6: expected a number, ',' or ']'");
  CHECK(problem("a[3-1]") == "character 3: a range ends before it begins");
  CHECK(problem("a\x01") == "character 2: no character of a host's name");
}

TEST_CASE("a list without a host is refused") {
  CHECK(problem("") == "it names no host");
  CHECK(problem(" , ,") == "it names no host");
}

TEST_CASE("a million hosts are read without being written out, and one more is refused") {
  const auto list = Hostlist::parse("a[0-999]b[0-999]");
  REQUIRE(list.has_value());
  CHECK(list->size() == 1'000'000);
  CHECK(list->name(0) == "a0b0");
  CHECK(list->name(123'456) == "a123b456");
  CHECK(list->name(999'999) == "a999b999");
  CHECK(problem("a[0-999]b[0-999],c") == "character 18: more than 1000000 hosts");
  CHECK(problem("a[0-999]b[0-1000]") == "character 1: more than 1000000 hosts");
  CHECK(problem("x,a[0-999]b[0-999]c[0-999]d[0-999]e[0-999]f[0-999]g[0-999]") ==
        "character 3: more than 1000000 hosts");
}

TEST_CASE("the limits of ranges, numbers, names and lists are those that are documented") {
  CHECK(Hostlist::parse("a[0-65535]").has_value());
  CHECK(problem("a[0-65536]") == "character 3: a range of more than 65536 hosts");
  CHECK(hosts("a[999999999999999998-999999999999999999]").size() == 2);
  CHECK(problem("a[1000000000000000000]") == "character 3: a number of more than 18 digits");
  CHECK(hosts(std::string(255, 'a')).size() == 1);
  CHECK(problem("b," + std::string(256, 'a')) == "character 3: a name of more than 255 bytes");
  CHECK(problem(std::string(254, 'a') + "[9-10]") == "character 1: a name of more than 255 bytes");
  CHECK_THAT(problem(std::string(256 * 1024 + 1, ',')), StartsWith("262145 bytes are more than"));
}
