#include "agent/streams/recent_output.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

using namespace ddprun::agent;

namespace {

OutputSource stream_of(int rank, bool standard_error = false,
                       ddprun::proto::RoundNumber round = 0) {
  OutputSource source;
  source.round = round;
  source.local_rank = rank;
  source.rank = rank;
  source.standard_error = standard_error;
  return source;
}

std::string all_of(RecentOutput::Follower& follower) {
  std::string text;
  while (const auto piece = follower.next()) text += piece->text;
  return text;
}

}  // namespace

TEST_CASE("the end of each stream is kept, from the beginning of a line on") {
  const auto output = std::make_shared<RecentOutput>();
  output->add(stream_of(1), "short\nand unfinished");
  output->add(stream_of(0, true), "of stderr\n");
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "line " + std::to_string(i) + "\n";
  output->add(stream_of(0), many);
  for (int i = 5000; i < 9000; ++i) output->add(stream_of(0), "line " + std::to_string(i) + "\n");

  const auto ends = RecentOutput::Follower(output).take_ends();
  REQUIRE(ends.size() == 3);
  CHECK(ends[0].rank == 0);
  CHECK_FALSE(ends[0].standard_error);
  CHECK(ends[0].text.size() <= RecentOutput::kEndBytes);
  CHECK(ends[0].text.size() > RecentOutput::kEndBytes - 20);
  CHECK(ends[0].text.starts_with("line "));
  CHECK(ends[0].text.ends_with("line 8998\nline 8999\n"));
  CHECK(ends[1].text == "of stderr\n");
  CHECK(ends[1].standard_error);
  CHECK(ends[2].text == "short\nand unfinished");
  CHECK(output->last_line({0, 0}) == "line 8999");
  CHECK(output->last_line({0, 1}) == "and unfinished");
  CHECK(output->last_line({0, 2}).empty());
}

TEST_CASE("the last line is of the stream that was written last, and of a bar its newest state") {
  RecentOutput output;
  output.add(stream_of(0), "one\n");
  output.add(stream_of(0, true), "two\n\n");
  CHECK(output.last_line({0, 0}) == "two");
  output.add(stream_of(0), "  1%\r  2%\r");
  CHECK(output.last_line({0, 0}) == "  2%");
}

TEST_CASE("who follows gets all that comes, and is told of it once until it has looked") {
  int told = 0;
  const auto output = std::make_shared<RecentOutput>([&] { ++told; });
  output->add(stream_of(0), "before\n");
  CHECK(told == 0);
  {
    RecentOutput::Follower first(output);
    RecentOutput::Follower second(output);
    output->add(stream_of(0), "one\n");
    output->add(stream_of(1, true), "two\n");
    CHECK(told == 1);
    CHECK(all_of(first) == "one\ntwo\n");
    output->looked();
    output->add(stream_of(0), "three\n");
    CHECK(told == 2);
    CHECK(all_of(first) == "three\n");
    CHECK(all_of(second) == "one\ntwo\nthree\n");
    CHECK(first.take_lost() == 0);
  }
  output->add(stream_of(0), "after\n");
  RecentOutput::Follower late(output);
  CHECK(all_of(late).empty());
}

TEST_CASE("what is not taken in time is lost to who follows, and counted") {
  const auto output = std::make_shared<RecentOutput>();
  RecentOutput::Follower slow(output);
  const std::string block(10'000, 'x');
  std::size_t written = 0;
  for (int i = 0; i < 100; ++i) {
    output->add(stream_of(0), block);
    written += block.size();
  }
  const std::size_t taken = all_of(slow).size();
  CHECK(taken <= RecentOutput::kPiecesBytesMax);
  CHECK(taken > RecentOutput::kPiecesBytesMax - block.size());
  CHECK(slow.take_lost() == written - taken);
  CHECK(slow.take_lost() == 0);
}

TEST_CASE("no character is cut between two pieces, nor between the end and the first one") {
  const auto output = std::make_shared<RecentOutput>();
  const std::string text = "\xe2\x82\xac";  // one character
  output->add(stream_of(0), "a " + text.substr(0, 1));
  RecentOutput::Follower follower(output);
  CHECK(follower.take_ends().front().text == "a ");
  output->add(stream_of(0), text.substr(1) + text.substr(0, 2));
  const auto first = follower.next();
  REQUIRE(first);
  CHECK(first->text == text);
  CHECK_FALSE(follower.next());
  output->add(stream_of(0), text.substr(2));
  CHECK(all_of(follower) == text);
  // What is no character never waits for more than its own bytes.
  output->add(stream_of(0), "\xff\xf0");
  output->add(stream_of(0), "x");
  CHECK(all_of(follower) == "\xff\xf0x");
  std::string euros;
  for (int i = 0; i < 20'000; ++i) euros += text;
  output->add(stream_of(0), euros);
  std::string all;
  while (const auto piece = follower.next()) {
    CHECK(piece->text.size() % text.size() == 0);
    all += piece->text;
  }
  CHECK(all == euros);
}

TEST_CASE("streams of old rounds are forgotten") {
  const auto output = std::make_shared<RecentOutput>();
  output->add(stream_of(0, false, 1), "old\n");
  output->add(stream_of(0, true, 1), "old\n");
  output->add(stream_of(0, false, 2), "new\n");
  output->add(stream_of(1, false, 1), "goes on\n");
  output->note_end(stream_of(0, false, 1));
  output->note_end(stream_of(0, true, 1));
  output->forget_before(2);
  CHECK(RecentOutput::Follower(output).take_ends().size() == 2);
  CHECK(output->last_line({1, 0}).empty());
  CHECK(output->last_line({1, 1}) == "goes on");
}
