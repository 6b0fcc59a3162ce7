// The store's table of names against std::map, with names that collide and chains that break up.
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "rendezvous/store/name_table.hpp"

namespace {

/// Counts its copies, so that a test sees that erased and leftover ones are destroyed.
struct Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int number = 0;
  inline static int alive = 0;
};
using Table = ddprun::rdzv::NameTable<Counted>;

std::map<std::string, int> contents(const Table& table) {
  std::map<std::string, int> found;
  table.for_each([&](const Table::Entry& entry) {
    const bool fresh = found.emplace(entry.name(), entry.number).second;
    CHECK(fresh);
  });
  return found;
}

}  // namespace

TEST_CASE("a table of names holds what a map holds after any additions and erasures") {
  const auto seed = GENERATE(1U, 2U, 3U, 4U, 5U);
  std::mt19937 random(seed);
  std::map<std::string, int> model;
  {
    Table table;
    CHECK(table.find("") == nullptr);
    for (int step = 0; step < 20'000; ++step) {
      // Few names and a small table, so that chains form, wrap around its end, and lose links.
      const std::string name(random() % 12, static_cast<char>('a' + random() % 6));
      Table::Entry* const found = table.find(name);
      REQUIRE((found != nullptr) == model.contains(name));
      if (found != nullptr && random() % 2 == 0) {
        table.erase(*found);
        model.erase(name);
        CHECK(table.find(name) == nullptr);
      } else {
        Table::Entry& entry = table.find_or_add(name);
        REQUIRE((found == nullptr || found == &entry));
        REQUIRE(entry.name() == name);
        entry.number = step;
        model[name] = step;
      }
      REQUIRE(table.size() == model.size());
      if (step % 100 == 0) REQUIRE(contents(table) == model);
    }
    CHECK(contents(table) == model);
    CHECK(Counted::alive == static_cast<int>(model.size()));
  }
  CHECK(Counted::alive == 0);
}

TEST_CASE("entries of a table of names stay where they are while it grows") {
  Table table;
  std::vector<Table::Entry*> entries;
  for (int i = 0; i < 5000; ++i) {
    entries.push_back(&table.find_or_add(std::to_string(i)));
    entries.back()->number = i;
  }
  for (int i = 0; i < 5000; ++i) {
    REQUIRE(table.find(std::to_string(i)) == entries[static_cast<std::size_t>(i)]);
    REQUIRE(entries[static_cast<std::size_t>(i)]->number == i);
  }
}
