#include "launcher/options/parser.hpp"

#include <algorithm>

#include "base/shell_word.hpp"
#include "launcher/options/option_value.hpp"
#include "launcher/options/other_launchers.hpp"
#include "texts/misplaced_option.hpp"
#include "texts/suggest.hpp"

namespace ddprun::launcher {
namespace {

/// Underscores and dashes are the same in a long name.
std::string dashed(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '_', '-');
  return result;
}

bool looks_like_an_option(const std::string& token) { return token.size() > 1 && token[0] == '-'; }

/// argparse's rule: what begins with a dash is no value, except a number and what contains a blank.
bool can_be_a_value(const std::string& token) {
  if (!looks_like_an_option(token)) return true;
  if (token.find(' ') != std::string::npos) return true;
  const auto digits = token.find_first_not_of("0123456789.", 1);
  return digits == std::string::npos && token.find_first_of("0123456789") != std::string::npos;
}

/// A word that is no number and looks like a path, a script or our own trainer.
bool may_be_program(const std::string& word) {
  if (word.empty() || parse_integer(word.substr(0, 1))) return false;
  return word == "train" || word.find_first_of("./") != std::string::npos;
}

/// The option with what stands for its value in the help: `--max-restarts=N`, `-r 0..3`.
std::string with_hint(const OptionRow& row, const std::string& spelling) {
  return spelling + (spelling.size() > 2 ? "=" : " ") + value_hint(option_text(row)).substr(1);
}

}  // namespace

ParsedCommandLine::ParsedCommandLine(std::span<const OptionRow> table) : values_(table.size()) {}

const OptionValue& ParsedCommandLine::value(RowRef row) const { return values_[row.place()]; }

bool ParsedCommandLine::given(RowRef row) const {
  const auto source = value(row).source;
  return source == OptionValue::Source::environment || source == OptionValue::Source::command_line;
}

bool ParsedCommandLine::flag(FlagRef row) const { return value(row).text == "1"; }

std::optional<long long> ParsedCommandLine::integer(IntegerRef row) const {
  if (value(row).source == OptionValue::Source::none) return std::nullopt;
  return parse_integer(value(row).text);
}

std::optional<std::chrono::milliseconds> ParsedCommandLine::seconds(SecondsRef row) const {
  if (value(row).source == OptionValue::Source::none) return std::nullopt;
  return parse_seconds(value(row).text);
}

LaunchResult<int> ParsedCommandLine::integer_up_to(IntegerRef row, long long limit) const {
  const long long number = integer(row).value_or(0);
  if (number > limit)
    return usage_error(spelling(row) + ": at most " + std::to_string(limit) + " is possible");
  return static_cast<int>(number);
}

std::string ParsedCommandLine::text(TextRef row) const { return value(row).text; }

const std::string& ParsedCommandLine::spelling(RowRef row) const { return value(row).spelling; }

/// One walk over one command line.
class CommandLineParser {
 public:
  CommandLineParser(std::span<const OptionRow> table, const std::vector<std::string>& arguments)
      : table_(table), arguments_(arguments), parsed_(table) {}

  LaunchResult<ParsedCommandLine> run(const Environment& environment);

 private:
  using Step = LaunchResult<bool>;  // false: stop here

  Step walk();
  Step long_option(const std::string& token);
  Step short_options(const std::string& token);
  Step take(std::size_t row, const std::string& spelling, std::optional<std::string> value);
  Step missing_value(const OptionRow& row, const std::string& spelling) const;
  LaunchResult<std::size_t> find_long(const std::string& spelling) const;
  LaunchError unknown(const std::string& spelling) const;
  std::string typed_value(std::string_view name) const;
  std::string option_of_train(std::string_view name, std::string_view value) const;
  void take_program();
  Step read_environment(const Environment& environment);
  void fill_defaults_and_warnings();

  std::span<const OptionRow> table_;
  const std::vector<std::string>& arguments_;
  std::size_t next_ = 0;
  ParsedCommandLine parsed_;
};

LaunchResult<ParsedCommandLine> CommandLineParser::run(const Environment& environment) {
  if (const auto walked = walk(); !walked) return walked.error();
  if (!parsed_.ended_by) {
    if (const auto read = read_environment(environment); !read) return read.error();
  }
  fill_defaults_and_warnings();
  return std::move(parsed_);
}

CommandLineParser::Step CommandLineParser::walk() {
  while (next_ < arguments_.size()) {
    const std::string& token = arguments_[next_];
    if (token == "--") {
      ++next_;
      if (next_ < arguments_.size()) {
        parsed_.program = arguments_[next_++];
        parsed_.arguments.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(next_),
                                 arguments_.end());
      }
      return false;
    }
    if (!looks_like_an_option(token)) {
      take_program();
      return false;
    }
    ++next_;
    const auto step = token.starts_with("--") ? long_option(token) : short_options(token);
    if (!step || !*step) return step;
  }
  return false;
}

/// What is written after the = of the option just met, else the next word where it is a number, or
/// is known to be the value of such an option and is not the last word, which must be PROGRAM.
std::string CommandLineParser::typed_value(std::string_view name) const {
  const std::string& token = arguments_[next_ - 1];
  if (const auto equals = token.find('='); equals != std::string::npos)
    return token.substr(equals + 1);
  if (next_ >= arguments_.size()) return "";
  const std::string& word = arguments_[next_];
  const bool is_value = next_ + 1 < arguments_.size() && can_be_a_value(word) &&
                        may_be_value_of(name.substr(0, name.find('=')), word);
  return is_value || parse_integer(word) ? word : "";
}

/// Only where train follows: other programs have options of the same names.
std::string CommandLineParser::option_of_train(std::string_view name,
                                               std::string_view value) const {
  const auto rest = arguments_.begin() + static_cast<std::ptrdiff_t>(next_);
  if (std::find(rest, arguments_.end(), "train") == arguments_.end()) return "";
  return program_with_option(name) == "train" ? misplaced_option("ddprun", name, value) : "";
}

/// PROGRAM without `--` before it: one directly behind it is ours then, and removed. The rest is
/// not looked at.
void CommandLineParser::take_program() {
  parsed_.program = arguments_[next_++];
  if (next_ < arguments_.size() && arguments_[next_] == "--") ++next_;
  parsed_.arguments.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(next_),
                           arguments_.end());
}

CommandLineParser::Step CommandLineParser::long_option(const std::string& token) {
  const auto equals = token.find('=');
  const std::string spelling = token.substr(0, equals);
  const auto row = find_long(spelling);
  if (!row) return row.error();
  std::optional<std::string> value;
  if (equals != std::string::npos) value = token.substr(equals + 1);
  return take(*row, spelling, std::move(value));
}

LaunchResult<std::size_t> CommandLineParser::find_long(const std::string& spelling) const {
  const std::string name = dashed(std::string_view(spelling).substr(2));
  std::vector<std::size_t> begins;
  std::vector<std::string> candidates;
  for (std::size_t i = 0; i < table_.size(); ++i) {
    // The row's name where it begins so, else the first of its other names that does.
    std::string_view match = table_[i].name.starts_with(name) ? table_[i].name : "";
    if (table_[i].name == name) return i;
    for (const auto alias : words_of(table_[i].aliases)) {
      if (alias == name) return i;
      if (match.empty() && alias.starts_with(name)) match = alias;
    }
    if (name.empty() || match.empty()) continue;
    begins.push_back(i);
    candidates.push_back("--" + std::string(match));
  }
  if (begins.size() == 1) return begins.front();
  if (begins.empty() || !instead_of_option(name, "").empty()) return unknown(spelling);
  return usage_error(spelling + " is ambiguous: it could be " + enumerate(candidates));
}

/// `-m`, `-r3`, `-r=3`, `-r 3`, and several flags behind one dash.
CommandLineParser::Step CommandLineParser::short_options(const std::string& token) {
  for (std::size_t i = 1; i < token.size(); ++i) {
    const auto row = std::find_if(table_.begin(), table_.end(), [&](const OptionRow& candidate) {
      return candidate.short_name != '\0' && candidate.short_name == token[i];
    });
    if (row == table_.end()) return unknown(token);
    const auto index = static_cast<std::size_t>(row - table_.begin());
    const std::string spelling = std::string("-") + token[i];
    std::optional<std::string> value;
    const bool last = i + 1 == token.size();
    const bool takes_rest = !last && (row->type != ValueType::flag || token[i + 1] == '=');
    if (takes_rest) value = token.substr(token[i + 1] == '=' ? i + 2 : i + 1);
    const auto step = take(index, spelling, std::move(value));
    if (!step || !*step || takes_rest) return step;
  }
  return true;
}

CommandLineParser::Step CommandLineParser::take(std::size_t index, const std::string& spelling,
                                                std::optional<std::string> value) {
  const OptionRow& row = table_[index];
  OptionValue& slot = parsed_.values_[index];
  slot.source = OptionValue::Source::command_line;
  slot.spelling = spelling;
  if (row.type == ValueType::flag) {
    if (value) return usage_error(spelling + " takes no value: write " + spelling + " alone");
    slot.text = "1";
  } else if (row.type == ValueType::optional_topic && !value) {
    slot.text.clear();
  } else {
    if (!value && row.type == ValueType::optional_choice)
      value = std::string(choices_of(row).front());
    const bool next_word = !value;
    if (next_word) {
      if (next_ >= arguments_.size() || !can_be_a_value(arguments_[next_])) {
        return missing_value(row, spelling);
      }
      value = arguments_[next_++];
      if (value->starts_with('=') && spelling.size() > 2) {
        const std::string behind = next_ < arguments_.size() ? arguments_[next_] : "VALUE";
        return usage_error("no blanks around =: type " + spelling + "=" +
                           (value->size() > 1 ? value->substr(1) : behind));
      }
      if (next_ == arguments_.size() && row.type == ValueType::text)
        parsed_.last_taken = spelling + " took " + *value;
    }
    slot.spelling = spelling + (spelling.size() > 2 ? "=" : " ") + *value;
    auto text = checked_value(row, *value, slot.spelling);
    if (!text) {
      // `--out=runs` is also the beginning of --output.
      if (const auto misplaced = option_of_train(dashed(spelling).substr(2), *value);
          !misplaced.empty())
        return usage_error(text.error().message + " (" + misplaced + ")");
      if (next_word && may_be_program(*value))
        return usage_error(text.error().message + "; if " + *value + " is PROGRAM, type " +
                           with_hint(row, spelling) + " " + *value);
      return text.error();
    }
    slot.text = std::move(*text);
  }
  if (row.ends) {
    parsed_.ended_by = RowRef::at(index);
    if (next_ < arguments_.size() && !arguments_[next_].starts_with('-'))
      parsed_.word_behind_end = arguments_[next_];
    return false;
  }
  return true;
}

CommandLineParser::Step CommandLineParser::missing_value(const OptionRow& row,
                                                         const std::string& spelling) const {
  std::string message = spelling + " needs a value: " + with_hint(row, spelling);
  if (next_ < arguments_.size() && arguments_[next_] != "--") {
    message += " (a value that begins with a dash is written after =, as in --" +
               std::string(row.name) + "=" + shell_word(arguments_[next_]) + ")";
  }
  return usage_error(message);
}

LaunchError CommandLineParser::unknown(const std::string& spelling) const {
  const std::string_view next =
      next_ < arguments_.size() ? std::string_view(arguments_[next_]) : "";
  if (const auto workers = mpirun_workers(spelling, next); !workers.empty())
    return usage_error("unknown option " + spelling + "; did you mean --nproc-per-node=" + workers +
                       "?");
  std::vector<std::string> known;
  for (const auto& row : table_) {
    known.emplace_back(row.name);
    for (const auto alias : words_of(row.aliases)) known.emplace_back(alias);
  }
  const auto first = spelling.find_first_not_of('-');
  const auto name = first == std::string::npos ? std::string() : dashed(spelling.substr(first));
  const auto meant = nearest(name.substr(0, name.find('=')), known);
  if (auto misplaced = option_of_train(name.substr(0, name.find('=')), typed_value(name));
      !misplaced.empty()) {
    return usage_error(std::move(misplaced));
  }
  std::string message = "unknown option " + spelling;
  if (const auto other = instead_of_option(name.substr(0, name.find('=')), typed_value(name));
      !other.empty())
    return usage_error(message + other);
  if (meant) {
    message += "; did you mean --" + *meant + "?";
  } else if (program_with_option(name.substr(0, name.find('='))) == "rdzvd") {
    message += "; rdzvd has one of this name";
  } else {
    message += "; ddprun --help shows all options";
  }
  return usage_error(message + " (PROGRAM's own options go after PROGRAM)");
}

CommandLineParser::Step CommandLineParser::read_environment(const Environment& environment) {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const OptionRow& row = table_[i];
    OptionValue& slot = parsed_.values_[i];
    if (row.environment.empty() || slot.source != OptionValue::Source::none) continue;
    const auto variable = lookup(environment, row.environment);
    if (!variable) continue;
    const std::string name(row.environment);
    if (variable->empty()) {
      parsed_.warnings.push_back(name + " is empty and counts as not set");
      continue;
    }
    slot.spelling = name + "=" + *variable;
    auto text = checked_value(row, *variable, slot.spelling);
    if (!text) return text.error();
    slot.text = std::move(*text);
    slot.source = OptionValue::Source::environment;
  }
  return true;
}

void CommandLineParser::fill_defaults_and_warnings() {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const OptionRow& row = table_[i];
    OptionValue& slot = parsed_.values_[i];
    if (slot.source == OptionValue::Source::none) {
      if (row.default_value.empty()) continue;
      slot.text = std::string(row.default_value);
      slot.source = OptionValue::Source::row_default;
    } else if (!row.no_effect.empty()) {
      parsed_.warnings.push_back(slot.spelling +
                                 " has no effect here: " + std::string(row.no_effect));
    }
  }
}

LaunchResult<ParsedCommandLine> parse_command_line(std::span<const OptionRow> table,
                                                   const std::vector<std::string>& arguments,
                                                   const Environment& environment) {
  return CommandLineParser(table, arguments).run(environment);
}

}  // namespace ddprun::launcher
