#include "agent/streams/line_fold.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using ddprun::agent::LineFold;
using ddprun::agent::rank_list;

namespace {

/// A fold of some ranks, a clock that moves by hand, and what came out: `0-2: text`.
struct Folded {
  explicit Folded(const std::vector<int>& ranks) { fold.set_ranks(ranks); }
  void add(int rank, const std::string& text) {
    fold.add(rank, text, now);
    take();
  }
  void wait(std::chrono::milliseconds time) {
    now += time;
    take();
  }
  void take() {
    while (auto line = fold.next(now)) out.push_back(rank_list(line->ranks) + ": " + line->text);
  }
  LineFold fold;
  LineFold::Clock::time_point now{};
  std::vector<std::string> out;
};

using Shown = std::vector<std::string>;

}  // namespace

TEST_CASE("a line of all ranks is given once, as soon as the last of them has printed it") {
  Folded folded({0, 1, 2});
  for (const int rank : {2, 0}) folded.add(rank, "hello");
  CHECK(folded.out.empty());
  CHECK(folded.fold.due() == folded.now + LineFold::kHold);
  folded.add(1, "hello");
  CHECK(folded.out == Shown{"0-2: hello"});
  CHECK_FALSE(folded.fold.due().has_value());
}

TEST_CASE("a line that not all ranks print waits a moment for the others") {
  Folded folded({0, 1, 2, 3});
  for (const int rank : {0, 2, 3}) folded.add(rank, "some");
  folded.wait(LineFold::kHold - 1ms);
  CHECK(folded.out.empty());
  folded.wait(1ms);
  CHECK(folded.out == Shown{"0,2-3: some"});
  folded.add(1, "some");
  folded.wait(LineFold::kHold);
  CHECK(folded.out.back() == "1: some");
}

TEST_CASE("a rank that is ahead with other lines is not waited for") {
  Folded folded({0, 1});
  folded.add(0, "a");
  folded.add(1, "b");
  CHECK(folded.out == Shown{"0: a"});
  folded.add(1, "b");
  folded.add(0, "b");
  folded.add(0, "b");
  CHECK(folded.out == Shown{"0: a", "0-1: b", "0-1: b"});
}

TEST_CASE("what is held is given before something else of the same rank") {
  Folded folded({0, 1});
  folded.add(0, "a");
  folded.add(0, "b");
  CHECK(folded.fold.held_until(0) == 2);
  CHECK(folded.fold.held_until(1) == 0);
  folded.fold.release(1);
  folded.take();
  CHECK(folded.out.empty());
  folded.fold.release(0);
  folded.take();
  CHECK(folded.out == Shown{"0: a", "0: b"});
  folded.add(1, "a");
  folded.fold.release_all();
  folded.take();
  CHECK(folded.out.back() == "1: a");
}

TEST_CASE("much that is held waits no longer") {
  Folded folded({0, 1});
  for (std::size_t i = 0; i < LineFold::kLinesMax + 10; ++i) folded.add(0, std::to_string(i));
  CHECK(folded.out.size() == 10);
  folded.add(0, std::string(LineFold::kBytesMax, 'x'));
  CHECK(folded.out.size() == LineFold::kLinesMax + 10);
}

TEST_CASE("ranks are listed in ranges") {
  CHECK(rank_list({0}) == "0");
  CHECK(rank_list({0, 1, 2, 3}) == "0-3");
  CHECK(rank_list({0, 2, 3, 4, 5, 9}) == "0,2-5,9");
}

TEST_CASE("of random lines each rank's are all there, in their order, and none is late") {
  std::mt19937 random(19);
  std::size_t folds = 0;
  for (int round = 0; round < 300; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 9);
    LineFold fold;
    std::vector<int> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
    fold.set_ranks(all);
    LineFold::Clock::time_point now{};
    std::map<int, std::vector<std::string>> printed;
    std::map<int, std::vector<LineFold::Clock::time_point>> printed_at;
    std::map<int, std::vector<std::string>> shown;
    const auto take = [&] {
      while (const auto line = fold.next(now)) {
        folds += line->ranks.size() - 1;
        for (const int rank : line->ranks) {
          REQUIRE(now - printed_at[rank][shown[rank].size()] <= LineFold::kHold);
          shown[rank].push_back(line->text);
        }
      }
    };
    for (int i = 0; i < 200; ++i) {
      const auto later = now + std::chrono::milliseconds(random() % (round % 40 + 1));
      for (auto due = fold.due(); due && *due <= later; due = fold.due()) {
        now = std::max(now, *due);
        take();
      }
      now = later;
      const int rank = static_cast<int>(random() % static_cast<unsigned>(ranks));
      printed[rank].push_back(std::string(1, static_cast<char>('a' + random() % 4)));
      printed_at[rank].push_back(now);
      fold.add(rank, printed[rank].back(), now);
      if (random() % 20 == 0) fold.release(rank);
      if (random() % 50 == 0) fold.release_all();
      take();
    }
    fold.release_all();
    take();
    REQUIRE(shown == printed);
    CHECK_FALSE(fold.due().has_value());
  }
  CHECK(folds > 1000);
}
