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
  lines.settle(kNow + 2 * LogLines::kUnfinishedEvery);  // it has not moved
  CHECK(lines.take().empty());
  lines.add(kStdout, "\r 3%", kNow + 21s);
  lines.settle(kNow + 22s);
  CHECK(lines.take().empty());
  lines.add(kStdout, "\r100%\n", kNow + 23s);
  lines.settle(kNow + 24s);
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
  const std::string late = (folder / "late.log").string();
  files.add(kOther, late, lines, kNow);
  files.read(lines, kNow);
  CHECK(lines.take().empty());
  std::ofstream(late) << "from its beginning on\n";
  files.read(lines, kNow);
  CHECK(lines.take() == "[rank3] from its beginning on\n");
  // In the next round the stream has another file, and the rest of the old one comes before it.
  std::ofstream(late, std::ios::app) << "the last one\nno end";
  files.add({1, 3, "stderr"}, path, lines, kNow);
  const std::string both = lines.take();
  CHECK(both.starts_with("[rank3] the last one\n"));
  CHECK(both.find("[rank3] no end\n") != std::string::npos);
  CHECK(both.ends_with("[rank3] one more\n"));
  std::ofstream(late, std::ios::app) << " any more\n";
  files.read(lines, kNow);
  CHECK(lines.take().empty());
}
