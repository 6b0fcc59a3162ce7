// An ordinary command line, read by CLI11, with the texts that all our programs have: --help,
// --man, --completion, and what to type instead of what is wrong. ddprun's own command line is not
// ordinary (docs/decisions/0002-option-table.md).
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/lower_case.hpp"
#include "base/number_in.hpp"
#include "texts/program_text.hpp"
#include "texts/words.hpp"

namespace ddprun {

/// Why a program ends before its work.
struct CommandLineEnd {
  bool wrong = false;  ///< the command line: the text is for stderr
  std::string text;
};

class CommandLine {
 public:
  /// `program` without its options. `help_command` is what shows the help: `ddprun train --help`.
  CommandLine(ProgramText program, std::string help_command, std::function<std::string()> version);

  /// The options that are added next belong to it. Those of the group "" are in no text: they are
  /// for our own tests.
  void group(std::string title) { group_ = std::move(title); }

  /// A number or a text is the default, and shown. Values must outlive `parse`.
  template <class Value>
  CLI::Option* text(const char* name, Value& value, const char* placeholder, const char* help) {
    CLI::Option* option = app_.add_option(name, value, help)->type_name(placeholder)->group(group_);
    constexpr bool shown = std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>;
    return shown ? option->capture_default_str() : option;
  }

  template <class Number>
  CLI::Option* number(const char* name, Number& value, std::type_identity_t<Number> low,
                      std::type_identity_t<Number> high, const char* placeholder,
                      const char* help) {
    return text(name, value, placeholder, help)->check(within<Number>(low, high));
  }
  template <class Number>
  CLI::Option* number(const char* name, std::optional<Number>& value,
                      std::type_identity_t<Number> low, std::type_identity_t<Number> high,
                      const char* placeholder, const char* help) {
    return text(name, value, placeholder, help)->check(within<Number>(low, high));
  }

  /// One of the words of `value`'s type, in lower or upper case.
  template <class Enum>
  CLI::Option* choice(const char* name, Enum& value, const char* help) {
    return word_for<Enum>(name, value, help)->default_str(std::string(word_of(value)));
  }
  template <class Enum>
  CLI::Option* choice(const char* name, std::optional<Enum>& value, const char* help) {
    return word_for<Enum>(name, value, help);
  }

  /// A duration (base/duration.hpp) from `low` on.
  CLI::Option* duration(const char* name, std::chrono::nanoseconds& value,
                        std::chrono::nanoseconds low, const char* help);

  CLI::Option* flag(const char* name, bool& value, const char* help) {
    return app_.add_flag(name, value, help)->group(group_);
  }

  /// Words that are no options, in their order. They are in no text: the synopsis has them.
  void words(std::vector<std::string>& words) { app_.add_option("WORD", words)->group(""); }

  /// What to type instead of an option that this program does not have: `--dp` as
  /// `--parallel=dp`, `--steps=3` as `--max-steps=3`. `name` has no dashes before it.
  void other_name(const std::string& name, std::string instead) {
    other_names_.emplace(name, std::move(instead));
  }

  /// What to type instead of `value`, in lower case, for the option `name`: of --model vgg16 as
  /// `--model=unet16`.
  void other_value(const std::string& name, const std::string& value, std::string instead) {
    other_values_.emplace(std::pair(name, value), std::move(instead));
  }

  /// An option of other programs that has nothing to take its place, and why it is not needed.
  void not_needed(const std::string& name, std::string why) {
    not_needed_.emplace(name, std::move(why));
  }

  /// Reads the arguments behind the program's own name; names may have dashes or underscores.
  /// Nothing: the values are set.
  std::optional<CommandLineEnd> parse(const std::vector<std::string>& arguments);

  /// The options that `parse` has read, in their order there: `--epochs`.
  [[nodiscard]] std::vector<std::string> given() const;

  /// A mistake that CLI11 knows nothing of, in one line.
  [[nodiscard]] CommandLineEnd wrong(std::string message) const;

 private:
  /// A check with its own words, and without a long name in the texts.
  template <class Number>
  static CLI::Validator within(Number low, Number high) {
    const auto check = [low, high](const std::string& text) {
      const auto value = number_in<Number>(text);
      const bool good = value && *value >= low && *value <= high;
      return good ? std::string()
                  : fmt::format("must be a number from {} to {}, not {}", low, high, text);
    };
    return CLI::Validator(check, "", "");
  }

  template <class Enum, class Value>
  CLI::Option* word_for(const char* name, Value& value, const char* help) {
    return word(
        name, choices<Enum>, help,
        [](const std::string& text) { return value_of<Enum>(lower_case(text)).has_value(); },
        [&value](const std::string& chosen) { value = *value_of<Enum>(lower_case(chosen)); });
  }
  CLI::Option* word(const char* name, std::string_view choices, const char* help,
                    std::function<bool(const std::string&)> known,
                    std::function<void(const std::string&)> take);
  void add_own_options();
  [[nodiscard]] ProgramText texts() const;
  [[nodiscard]] std::string text_instead(const std::string& option, const std::string& value) const;
  [[nodiscard]] CommandLineEnd unknown(const std::string& name, std::string value) const;
  [[nodiscard]] CommandLineEnd unknown(const std::vector<std::string>& rest) const;
  [[nodiscard]] std::string in_our_words(std::string message) const;

  ProgramText program_;
  std::string help_command_;
  std::function<std::string()> version_;
  CLI::App app_;
  std::string group_;
  std::map<std::string, std::string> other_names_;
  std::map<std::pair<std::string, std::string>, std::string> other_values_;
  std::map<std::string, std::string> not_needed_;
  bool version_wanted_ = false;
  std::string man_format_;
  std::string shell_;
};

}  // namespace ddprun
