// The one table of options. Parser, suggestions and texts all come from it: a new option is a new
// row (and a field of LaunchOptions), not new code.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "texts/program_text.hpp"
#include "texts/words.hpp"

namespace ddprun::launcher {

enum class ValueType {
  /// No value on the command line; from a variable an integer (non-zero is on), true, yes, ...
  flag,
  integer,          ///< any sign
  count,            ///< an integer, 0 or more
  count_or_word,    ///< an integer, 1 or more, or one of `choices`
  indexes_or_word,  ///< integers from 0 with commas between them, none twice, or one of `choices`
  text,             ///< anything
  choice,           ///< one of `choices`
  optional_choice,  ///< `--x` alone means the first of `choices`, `--x=v` one of them
  optional_topic,   ///< `--x` alone is an empty text, `--x=v` a topic of the help
  seconds,          ///< a decimal number, 0 or more; seconds, or with a unit ms, s, m, h
  seconds_or_word,  ///< as `seconds`, or one of `choices`
};

/// Headings of the help, in this order.
enum class OptionGroup {
  workers,
  program,
  gpus,
  streams,
  failures,
  rendezvous,
  hosts,
  ourselves,
  without_effect,
};

/// One option. Spellings are derived from the names: `--master-addr` and `--master_addr`.
struct OptionRow {
  std::string_view name;              ///< dash form, without the leading dashes
  char short_name = '\0';             ///< `m` for -m
  std::string_view aliases = {};      ///< other names of it, `a|b`, of torchrun or other launchers
  std::string_view environment = {};  ///< variable that gives the default; empty: none
  ValueType type = ValueType::flag;
  std::string_view choices = {};  ///< `a|b|c`
  std::string_view also = {};     ///< for ValueType::choice: further words, accepted but not shown
  std::string_view refused = {};  ///< words, `a|b`, that other launchers take, and
  std::string_view why_refused = {};
  OptionGroup group = OptionGroup::ourselves;
  /// `N`; empty for flags, and for choices (they are shown themselves).
  std::string_view placeholder = {};
  std::string_view help = {};           ///< one line, no full stop
  std::string_view more = {};           ///< further sentences for the man page
  std::string_view default_value = {};  ///< given to the accessors; empty: none
  /// Shown instead of default_value; both empty: nothing is shown.
  std::string_view default_text = {};
  std::string_view no_effect = {};  ///< not empty: accepted, and a warning gives this reason
  std::string_view example = {};    ///< a whole command line, `ddprun --nproc-per-node=4 train.py`
  bool ends = false;                ///< --help and the like: the rest of the line is not looked at
};

/// A row of a table. Of option_table() it is made from a name, which the compiler looks up: another
/// text does not compile (where option_rows.hpp is included).
class RowRef {
 public:
  consteval RowRef(const char* name);
  static constexpr RowRef at(std::size_t place) { return RowRef(place); }

  [[nodiscard]] constexpr std::size_t place() const { return place_; }
  friend constexpr bool operator==(RowRef, RowRef) = default;

 private:
  explicit constexpr RowRef(std::size_t place) : place_(place) {}

  std::size_t place_ = 0;
};

/// A row that has one of these types: another row does not compile.
template <ValueType... types>
class TypedRef : public RowRef {
 public:
  consteval TypedRef(const char* name);
  /// For a table that the compiler does not know.
  explicit constexpr TypedRef(RowRef row) : RowRef(row) {}
};
using FlagRef = TypedRef<ValueType::flag>;
using IntegerRef = TypedRef<ValueType::integer, ValueType::count, ValueType::count_or_word>;
using SecondsRef = TypedRef<ValueType::seconds, ValueType::seconds_or_word>;
using TextRef =
    TypedRef<ValueType::text, ValueType::choice, ValueType::optional_choice,
             ValueType::optional_topic, ValueType::count_or_word, ValueType::indexes_or_word>;

/// All rows, in the order of the help.
std::span<const OptionRow> option_table();

std::string_view group_title(OptionGroup group);

/// `--master-addr`, `--master_addr`, the same for its aliases, then `-m` where there is a short
/// one.
std::vector<std::string> spellings(const OptionRow& row);

/// The row with this spelling, `--nproc_per_node`, without a value; null: it is no option of
/// ddprun.
const OptionRow* option_spelled(std::string_view spelling);

/// The options of ddprun among the arguments of another program, without their values, in order.
std::vector<std::string> spelled_as_ours(const std::vector<std::string>& arguments);

/// Whether launchers have this option, and hardly any program that they start.
bool only_launchers_have(const OptionRow& row);

/// `choices` taken apart.
std::vector<std::string_view> choices_of(const OptionRow& row);

/// The row as help, man page and completions show it.
OptionText option_text(const OptionRow& row);

}  // namespace ddprun::launcher
