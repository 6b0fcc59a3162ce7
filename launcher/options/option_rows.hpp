// The rows of the table, for the compiler: it looks up the names that options.cpp asks for.
#pragma once

#include <algorithm>
#include <array>

#include "launcher/options/option_rows_failures.hpp"
#include "launcher/options/option_rows_job.hpp"
#include "launcher/options/option_rows_own.hpp"
#include "launcher/options/option_rows_rendezvous.hpp"
#include "launcher/options/parser.hpp"

namespace ddprun::launcher {

/// The rows of all tables, in this order.
template <std::size_t... sizes>
constexpr auto joined(const std::array<OptionRow, sizes>&... tables) {
  std::array<OptionRow, (sizes + ...)> all;
  auto* end = all.begin();
  ((end = std::copy(tables.begin(), tables.end(), end)), ...);
  return all;
}

// Options of torchrun carry its PET_ variable; of ours only the secret has one. What else torchrun
// reads (LOGLEVEL and so on) is in options.cpp.
inline constexpr auto kOptionRows =
    joined(kJobRows, kFailureRows, kRendezvousRows, kHostRows, kOwnRows, kRowsWithoutEffect);

consteval RowRef::RowRef(const char* name) {
  while (kOptionRows[place_].name != name) {
    if (++place_ == kOptionRows.size()) throw "the table has no option of this name";
  }
}

template <ValueType... types>
consteval TypedRef<types...>::TypedRef(const char* name) : RowRef(name) {
  if (((kOptionRows[place()].type != types) && ...)) throw "the row has another type";
}

/// A row with the words of an enumeration as its choices.
template <class Enum>
class ChoiceRef : public TextRef {
 public:
  consteval ChoiceRef(const char* name) : TextRef(name) {
    if (kOptionRows[place()].choices != choices<Enum>) throw "the row offers other words";
  }
};

/// The parser accepts only words of the row, and the row has those of the enumeration.
template <class Enum>
Enum choice(const ParsedCommandLine& parsed, ChoiceRef<Enum> row) {
  return value_of<Enum>(parsed.text(row)).value_or(Enum{});
}

}  // namespace ddprun::launcher
