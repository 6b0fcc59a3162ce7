// Which connection gives up its place when more come than there is room for.
#include "rendezvous/service/newcomers.hpp"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::chrono_literals;
using rdzv::Newcomers;

namespace {

constexpr rdzv::Clock::time_point kStart{1h};
constexpr Newcomers::Limits kLimits{8, 4, 250ms};

/// As many from each address, the first ones first.
Newcomers full_of(const std::map<std::string, int>& counts) {
  Newcomers newcomers(kLimits);
  rdzv::ConnectionId id = 0;
  for (const auto& [addr, count] : counts)
    for (int i = 0; i < count; ++i) newcomers.add(++id, addr, kStart);
  return newcomers;
}

}  // namespace

TEST_CASE("there is a place as long as not all are taken, and again when one is given back") {
  Newcomers newcomers = full_of({{"flood", 7}});
  CHECK(newcomers.has_place());
  newcomers.add(8, "flood", kStart);
  CHECK_FALSE(newcomers.has_place());
  newcomers.remove(3);
  newcomers.remove(3);
  CHECK(newcomers.size() == 7);
  CHECK(newcomers.has_place());
}

TEST_CASE("an address that has more than its share gives up its oldest place at once") {
  const Newcomers newcomers = full_of({{"a", 1}, {"flood", 7}});
  CHECK(newcomers.to_close_for("b", kStart) == 2U);
}

TEST_CASE("another connection of that address waits until the oldest of all has had its time") {
  const Newcomers newcomers = full_of({{"a", 1}, {"flood", 7}});
  CHECK_FALSE(newcomers.to_close_for("flood", kStart + 249ms).has_value());
  CHECK(newcomers.to_close_for("flood", kStart + 250ms) == 1U);
}

TEST_CASE("time in which nobody was served does not count as a stay") {
  Newcomers newcomers = full_of({{"a", 4}, {"b", 3}});
  newcomers.leave_out(1s);
  newcomers.add(8, "c", kStart + 1s);
  CHECK_FALSE(newcomers.to_close_for("d", kStart + 1s + 249ms).has_value());
  CHECK(newcomers.to_close_for("d", kStart + 1s + 250ms) == 1U);
  for (rdzv::ConnectionId id = 1; id < 8; ++id) newcomers.remove(id);
  CHECK_FALSE(newcomers.oldest(kStart + 1s + 249ms).has_value());
  CHECK(newcomers.oldest(kStart + 1s + 250ms) == 8U);
}

TEST_CASE("many nodes that come at one time leave each other their time") {
  const Newcomers newcomers = full_of({{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}});
  CHECK_FALSE(newcomers.to_close_for("e", kStart + 249ms).has_value());
  CHECK(newcomers.to_close_for("e", kStart + 250ms) == 1U);
}

TEST_CASE("of no connections none is closed") {
  CHECK_FALSE(Newcomers(kLimits).to_close_for("a", kStart + 1h).has_value());
  CHECK_FALSE(Newcomers(kLimits).oldest(kStart + 1h).has_value());
}
