#include "launcher/ctl/log_lines.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.hpp"

using namespace ddprun::ctl;
using namespace std::chrono_literals;

namespace {

const LogStream kStdout{0, 0, "stdout"};
const LogStream kOther{0, 3, "stderr"};
const LogLines::Clock::time_point kNow{};

}  // namespace

TEST_CASE("lines of several streams are joined from their pieces, each with its rank") {
  LogLines lines(false);
  lines.add(kStdout, "one\ntw", kNow);
  lines.add(kOther, "three\r\n", kNow);
  lines.add(kStdout, "o\n", kNow);
  CHECK(lines.take() == "[rank0] one\n[rank3] three\n[rank0] two\n");
  CHECK(lines.take().empty());
  lines.add(kOther, "no end", kNow);
  CHECK(lines.take().empty());
  lines.finish();
  CHECK(lines.take() == "[rank3] no end\n");
}

TEST_CASE("a progress bar becomes a line now and then, and at its end") {
  LogLines lines(false);
  lines.add(kStdout, "\r 1%", kNow);
  lines.add(kStdout, "\r 2%", kNow + 1s);
  lines.settle(kNow + 1s);
  CHECK(lines.take().empty());
  lines.settle(kNow + LogLines::kUnfinishedEvery);
  CHECK(lines.take() == "[rank0]  2%\n");
  lines.add(kStdout, "\r 3%", kNow + 11s);
  lines.settle(kNow + 12s);
  CHECK(lines.take().empty());
  lines.add(kStdout, "\r100%\n", kNow + 13s);
  lines.settle(kNow + 14s);
  lines.finish();
  CHECK(lines.take() == "[rank0] 100%\n");
}

TEST_CASE("no line of a worker controls a terminal") {
  LogLines lines(true);
  lines.add(kStdout, "\x1b[31mred\nbell\a tab\t \x7f\n", kNow);
  const std::string shown = lines.take();
  CHECK(shown.starts_with("[rank0] \x1b[31mred\x1b[0m\n"));
  CHECK(shown.find('\x7f') == std::string::npos);
}

TEST_CASE("files that workers write are read from near their end on") {
  const ddprun::test::TempDir folder;
  const std::string path = (folder / "stdout.log").string();
  std::ofstream file(path);
  for (int i = 0; i < 1000; ++i) file << "line " << i << '\n';
  file.flush();
  LogLines lines(false);
  LogFiles files;
  CHECK(files.empty());
  files.add(kStdout, path, lines, kNow);
  const std::string end = lines.take();
  CHECK(end.size() < 10'000);
  CHECK(end.starts_with("[rank0] line "));
  CHECK(end.ends_with("[rank0] line 999\n"));
  file << "one mo";
  file.flush();
  files.read(lines, kNow);
  CHECK(lines.take().empty());
  file << "re\n";
  file.flush();
  files.read(lines, kNow);
  CHECK(lines.take() == "[rank0] one more\n");
  files.add(kOther, (folder / "absent.log").string(), lines, kNow);
  files.read(lines, kNow);
  CHECK(lines.take().empty());
}
