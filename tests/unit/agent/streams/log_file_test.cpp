#include "agent/streams/log_file.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "agent/streams/line_prefix.hpp"
#include "agent/streams/stream_tail.hpp"
#include "tests/support/full_disk.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun::agent;

namespace {

/// A log file in a folder of its own, and its parts.
class Parts {
 public:
  Parts(std::uint64_t bytes_max, int keep)
      : file_(LogFile::open(path(), {.bytes_max = bytes_max, .keep = keep}).value()) {}
  void write(const std::string& text) {
    const auto taken = file_->take(text);
    CHECK(taken.written == text.size());
    CHECK(taken.lost == 0);
  }
  [[nodiscard]] std::string path() const { return (folder_ / "stdout.log").string(); }
  [[nodiscard]] std::string text(int number = 0) const {
    std::ifstream file(path() + (number > 0 ? "." + std::to_string(number) : ""));
    if (!file) return "none";
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  ddprun::test::TempDir folder_;
  std::shared_ptr<LogFile> file_;
};

}  // namespace

TEST_CASE("a log is not written into a pipe, nor through a link, that a worker has put there") {
  const ddprun::test::TempDir folder;
  const std::string path = folder / "stdout.log";
  SECTION("a pipe") { REQUIRE(mkfifo(path.c_str(), 0600) == 0); }
  SECTION("a link") { std::filesystem::create_symlink(folder / "victim", path); }
  CHECK(LogFile::open(path, {}).has_error());
  CHECK_FALSE(std::filesystem::exists(folder / "victim"));
}

TEST_CASE("without a cap a log file only grows") {
  Parts parts(0, 1);
  for (int i = 0; i < 100; ++i) parts.write("line\n");
  CHECK(parts.text().size() == 500);
  CHECK(parts.text(1) == "none");
}

TEST_CASE("a new part begins with the line that would not fit") {
  Parts parts(10, 2);
  parts.write("aaaa\nbbbb\n");  // fits exactly
  CHECK(parts.text(1) == "none");
  parts.write("cc\ndddd\nee\n");
  CHECK(parts.text() == "ee\n");
  CHECK(parts.text(1) == "cc\ndddd\n");
  CHECK(parts.text(2) == "aaaa\nbbbb\n");
  parts.write("12345678\n");
  CHECK(parts.text(2) == "cc\ndddd\n");
  CHECK(parts.text(3) == "none");
}

TEST_CASE("the rest of a line stays with its beginning, beyond the cap") {
  Parts parts(10, 1);
  parts.write("aaaa\nbb");
  parts.write("bbbbbbbbbb");
  parts.write("b\ncc\n");
  CHECK(parts.text(1) == "aaaa\nbbbbbbbbbbbbb\n");
  CHECK(parts.text() == "cc\n");
}

TEST_CASE("a line longer than the cap has a part of its own") {
  Parts parts(10, 3);
  parts.write("a\n" + std::string(50, 'x') + "\nb\n");
  CHECK(parts.text(2) == "a\n");
  CHECK(parts.text(1) == std::string(50, 'x') + "\n");
  CHECK(parts.text() == "b\n");
}

TEST_CASE("without any newline a part is cut at last") {
  Parts parts(10, 1);
  const std::string bars(kRotationOverrunMax / 2, '\r');
  for (int i = 0; i < 5; ++i) parts.write(bars);
  CHECK(parts.text(1).size() + parts.text().size() == 5 * bars.size());
  CHECK(parts.text(1).size() <= 10 + 2 * kRotationOverrunMax);
}

TEST_CASE("no older part is kept when none is wanted") {
  Parts parts(4, 0);
  parts.write("aaa\nbbb\n");
  CHECK(parts.text() == "bbb\n");
  CHECK(parts.text(1) == "none");
}

TEST_CASE("where no new part can be begun the old one goes on") {
  Parts parts(4, 1);
  std::filesystem::create_directories(parts.path() + ".1/full");
  parts.write("aaa\nbbb\nccc\n");
  CHECK(parts.text() == "aaa\nbbb\nccc\n");
}

TEST_CASE("a log file that was taken away begins again") {
  Parts parts(4, 1);
  parts.write("aaa\n");
  std::filesystem::remove(parts.path());
  parts.write("bbb\n");
  CHECK(parts.text() == "bbb\n");
}

TEST_CASE("how bytes are cut makes no difference to lines in parts") {
  for (std::size_t step : {1, 3, 7, 50, 1000}) {
    Parts parts(64, 1000);
    std::string all;
    for (int i = 0; i < 60; ++i)
      all += std::to_string(i) + std::string(static_cast<std::size_t>(i % 13), 'x') + "\n";
    for (std::size_t at = 0; at < all.size(); at += step) parts.write(all.substr(at, step));
    std::string joined;
    for (int number = 100; number >= 0; --number) {
      const std::string text = parts.text(number);
      if (text == "none") continue;
      CHECK(text.ends_with('\n'));
      joined += text;
    }
    CHECK(joined == all);
  }
}

TEST_CASE("what a full disk refuses is lost and counted") {
  const ddprun::test::TempDir folder;
  const auto file = LogFile::open(folder / "stdout.log", {});
  REQUIRE(file);
  const ddprun::test::FullDisk full(0);
  const auto taken = (*file)->take("12345\n");
  CHECK(taken.written == 0);
  CHECK(taken.lost == 6);
}

TEST_CASE("a line's prefix names whatever its template asks for") {
  const PrefixValues values{
      .rank = 5, .local_rank = 1, .round = 3, .role = "trainer", .host = "node3"};
  const auto prefix = [&](const std::string& text) {
    return std::string(LinePrefix(text, values).plain({}));
  };
  CHECK(prefix("[rank${rank}] ") == "[rank5] ");
  CHECK(prefix("[${role_name}${local_rank}]:") == "[trainer1]:");
  CHECK(prefix("$hostname/${round}/$$x $rank|${role}@${host}") == "node3/3/$x 5|trainer@node3");
  CHECK(prefix("").empty());
}

TEST_CASE("the time in a prefix is that of the line, to the millisecond") {
  LinePrefix prefix("${time} ${rank}|", {.rank = 2});
  CHECK(prefix.has_time());
  const auto at =
      std::chrono::system_clock::time_point(std::chrono::milliseconds(1'700'000'000'042));
  const std::string text(prefix.plain(at));
  REQUIRE(text.size() == 15);
  CHECK(text.substr(2, 1) + text.substr(5, 1) == "::");
  CHECK(text.substr(8) == ".042 2|");
  CHECK(std::string(prefix.plain(at + std::chrono::milliseconds(1))).substr(8) == ".043 2|");
  CHECK_FALSE(LinePrefix("${rank}", {}).has_time());
}

TEST_CASE("a coloured prefix ends its colour, and ranks differ") {
  LinePrefix one("[a] ", {.rank = 0});
  LinePrefix other("[a] ", {.rank = 1});
  const std::string text(one.coloured({}));
  CHECK(text.starts_with("\x1b["));
  CHECK(text.ends_with("[a] \x1b[0m"));
  CHECK(text != other.coloured({}));
  CHECK(LinePrefix("", {}).coloured({}).empty());
}

TEST_CASE("the tail keeps the last lines with text in them") {
  StreamTail tail;
  std::string block;
  for (int i = 0; i < 100; ++i) block += std::to_string(i) + "\n\n";
  tail.add("first");
  tail.add_lines("second\n");
  CHECK(tail.lines() == std::vector<std::string>{"first", "second"});
  tail.add_lines(block);
  REQUIRE(tail.lines().size() == kTailLines);
  CHECK(tail.lines().front() == "80");
  CHECK(tail.lines().back() == "99");
  tail.add_lines(std::string(1000, 'x') + "\n\n\n");
  CHECK(tail.lines().front() == "81");
  CHECK(tail.lines().back() == std::string(kTailLineBytesMax, 'x'));
  tail.add_lines("\n");
  CHECK(tail.lines().back().front() == 'x');
}

TEST_CASE("the tail notices an exception anywhere in a block") {
  StreamTail tail;
  tail.add_lines("fine\nValueError: bad lr\n" + std::string(5000, '\n'));
  CHECK(tail.signs().message() == "ValueError: bad lr");
  CHECK(tail.signs().first_at());
}

TEST_CASE("a set of ranks is its ranges, and without any it is all ranks") {
  CHECK(RankSet{}.has(7));
  const RankSet some{{{0, 0}, {4, 7}}};
  CHECK(some.has(0));
  CHECK(some.has(7));
  CHECK_FALSE(some.has(3));
}
