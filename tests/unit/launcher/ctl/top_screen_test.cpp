// What `ddpctl top` draws, on terminals of all sizes.
#include "launcher/ctl/top_screen.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "agent/terminal/terminal_text.hpp"

using namespace ddprun;
using namespace ddprun::ctl;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

TopRow row(std::int64_t rank) {
  TopRow row;
  row.rank = rank;
  row.state = "running";
  row.step = 1200 + rank;
  row.step_seconds = 0.08;
  row.step_history = {0.08, 0.08, 0.16, 0.04};
  row.phase = "forward";
  row.age_seconds = 0.02;
  row.cpu_percent = 99.6;
  row.memory_bytes = 3ULL << 30U;
  row.last_line = "loss 0.1 \xe4\xb8\x96\xe7\x95\x8c of rank " + std::to_string(rank);
  return row;
}

TopView job(std::int64_t ranks) {
  TopView view;
  view.job = "train7";
  view.state = "running";
  view.age_seconds = 125;
  view.round = 1;
  view.restart_count = 1;
  view.max_restarts = 3;
  view.world_size = ranks;
  view.nodes_in_round = 1;
  view.nodes.resize(1);
  view.nodes[0].name = "a";
  for (std::int64_t rank = 0; rank < ranks; ++rank) view.rows.push_back(row(rank));
  return view;
}

std::string text_of(const TopPicture& picture) {
  std::string text;
  for (const TopLine& line : picture.lines) text += line.text + "\n";
  return text;
}

std::string drawn(const TopView& view, const ScreenSize& size, const TopChoice& choice = {}) {
  return text_of(top_picture(view, size, choice));
}

}  // namespace

TEST_CASE("top: a wide terminal has a line with everything for each rank") {
  CHECK(
      drawn(job(2), {100, 24}) ==
      "train7: running  round 1  1 of 3 restarts  steps 1200 to 1201  2m old  2 workers  h: keys\n"
      "RANK  STATE    STEP  STEP/S   AGE  STEP TIME  PHASE     CPU   MEM  LAST LINE\n"
      "   0  running  1200    12.5  20ms  ▄▄█▂       forward  100%  3.0G  loss 0.1 世界 of rank 0\n"
      "   1  running  1201    12.5  20ms  ▄▄█▂       forward  100%  3.0G  loss 0.1 世界 of rank "
      "1\n");
}

TEST_CASE(
    "top: a narrow terminal leaves out the last line, the memory, the CPU, the phase, in that "
    "order") {
  const TopView view = job(1);
  const auto heading = [&](int columns) {
    const auto picture = top_picture(view, {columns, 24}, {});
    const auto found =
        std::find_if(picture.lines.begin(), picture.lines.end(),
                     [](const TopLine& line) { return line.paint == Paint::heading; });
    REQUIRE(found != picture.lines.end());
    return found->text;
  };
  CHECK_THAT(heading(62),
             Contains("PHASE") && Contains("CPU") && Contains("MEM") && !Contains("LAST"));
  CHECK_THAT(heading(50), Contains("PHASE") && !Contains("MEM"));
  CHECK(heading(40) == "RANK STATE   STEP STEP/S  AGE STEP TIME");
  CHECK(heading(20) == "RANK STATE   STEP");
  CHECK(heading(10) == "RANK");
}

TEST_CASE("top: no line is wider than the terminal, and there are no more than it has rows") {
  TopView view = job(20);
  view.rows[3].state = "SIGKILL";
  view.rows[3].has_failed = true;
  view.rows[4].phase = "\xf0\x9f\x9a\x80 \xff phase that goes on and on and on";
  view.silent_seconds = 7;
  view.nodes.resize(3);
  for (const bool utf8 : {true, false})
    for (const int columns : {1, 5, 20, 40, 80, 200})
      for (const int rows : {1, 2, 5, 6, 8, 12, 24, 50})
        for (const bool help : {true, false})
          for (const std::size_t first : {0, 7, 1000}) {
            INFO(columns << " columns, " << rows << " rows");
            const auto picture =
                top_picture(view, {columns, rows, utf8}, {first, TopOrder::slowest, help});
            CHECK(picture.lines.size() <= static_cast<std::size_t>(rows));
            CHECK(picture.first_row + picture.rows <= view.rows.size());
            for (const TopLine& line : picture.lines) {
              CHECK(agent::text_columns(line.text) <= columns);
              const bool is_ascii = std::all_of(line.text.begin(), line.text.end(),
                                                [](char c) { return c >= ' ' && c < '\x7f'; });
              CHECK((utf8 || is_ascii));
            }
            if (rows >= 5) CHECK(picture.rows > 0);
          }
}

TEST_CASE("top: 20 columns and 6 rows still tell who is where") {
  CHECK(drawn(job(9), {20, 6}) ==
        "train7: running\n"
        "round 1\n"
        "RANK STATE   STEP\n"
        "   0 running 1200\n"
        "   1 running 1201\n"
        "7 more (j, k)\n");
}

TEST_CASE("top: more ranks than rows are scrolled, not beyond the last one") {
  const auto at = [](std::size_t first) {
    return top_picture(job(30), {80, 10}, {first, TopOrder::slowest, false});
  };
  CHECK(at(0).first_row == 0);
  CHECK_THAT(at(0).lines.back().text, StartsWith("24 more"));
  CHECK_THAT(at(3).lines.back().text, StartsWith("3 above, 21 more"));
  CHECK(at(1000).first_row == 24);
  CHECK_THAT(at(1000).lines.back().text, StartsWith("24 above"));
}

TEST_CASE("top: columns that no worker has a value for are left out, and those of GPUs appear") {
  TopView view = job(2);
  for (TopRow& one : view.rows) {
    one.step.reset();
    one.step_seconds.reset();
    one.step_history.clear();
    one.age_seconds.reset();
    one.phase.clear();
    one.last_line.clear();
  }
  view.rows[1].devices = {87.0, 7ULL << 30U};
  CHECK(drawn(view, {80, 24}) ==
        "train7: running  round 1  1 of 3 restarts  2m old  2 workers  h: keys\n"
        "RANK  STATE    GPU   CPU  GPU MEM   MEM\n"
        "   0  running       100%           3.0G\n"
        "   1  running  87%  100%     7.0G  3.0G\n");
}

TEST_CASE("top: the header tells of the node, of silence and of the order") {
  TopView view = job(1);
  view.nodes_in_round = 4;
  view.silent_seconds = 7;
  const auto picture = top_picture(view, {200, 24}, {0, TopOrder::rank, false});
  CHECK(picture.lines[0].text == "no answer for 7.0s");
  CHECK(picture.lines[0].paint == Paint::warning);
  CHECK_THAT(picture.lines[1].text, Contains("node 0 of 4 (a)") && Contains("by rank"));
  CHECK_THAT(drawn(view, {80, 24}, {0, TopOrder::rank, true}), Contains("\nq leave  j k scroll"));
  view = job(0);
  view.round.reset();
  CHECK_THAT(drawn(view, {80, 24}), Contains("no round has begun"));
  CHECK(drawn({}, {80, 24}) == "no answer yet\n");
}

TEST_CASE("top: several nodes have a line each, the slowest first, and the rest is counted") {
  TopView view = job(2);
  view.nodes.clear();
  for (int i = 0; i < 9; ++i) {
    TopNode node;
    node.name = "n" + std::to_string(i);
    node.group_rank = i;
    node.workers = 8;
    node.failed = i == 7 ? 1 : 0;
    node.step = 100 - i;
    node.step_seconds = 0.5;
    node.cpu_percent = 750;
    node.memory_bytes = 1U << 30U;
    view.nodes.push_back(node);
  }
  const std::string text = drawn(view, {100, 12});
  CHECK_THAT(text, Contains("\nnode 8 n8: 8 workers  step 92  2.00 step/s  CPU 750%  MEM 1.0G\n"
                            "node 7 n7: 8 workers, 1 failed  step 93") &&
                       Contains("\n6 more nodes\n"));
}

TEST_CASE("top: what has failed is told by words, the colour only repeats it") {
  TopView view = job(2);
  view.rows[1].state = "SIGSEGV";
  view.rows[1].has_failed = true;
  const auto picture = top_picture(view, {80, 24}, {});
  CHECK(picture.lines.back().paint == Paint::failed);
  CHECK_THAT(picture.lines.back().text, Contains("SIGSEGV"));
}

TEST_CASE("top: a sparkline has the newest values, and half the height is the usual") {
  CHECK(sparkline({1, 1, 2, 4, 0, 0.5}, 1, 4, true) == "██▁▂");
  CHECK(sparkline({1, 1, 2, 4, 0, 0.5}, 1, 9, false) == "~~##_.");
  CHECK(sparkline({}, 1, 9, true).empty());
  CHECK(sparkline({0, 3}, 0, 9, true) == "▄▄");
}

TEST_CASE("top: times have one unit") {
  CHECK(short_time(0.0042) == "4ms");
  CHECK(short_time(-1) == "0ms");
  CHECK(short_time(0.31) == "0.3s");
  CHECK(short_time(9.99) == "10s");
  CHECK(short_time(99.4) == "99s");
  CHECK(short_time(125) == "2m");
  CHECK(short_time(7200) == "2h");
  CHECK(short_time(1e6) == "11d");
}
