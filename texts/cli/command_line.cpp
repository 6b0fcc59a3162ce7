#include "texts/cli/command_line.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/ranges.h>

#include "base/duration.hpp"
#include "base/printable.hpp"
#include "base/shell_word.hpp"
#include "texts/help_topic.hpp"
#include "texts/misplaced_option.hpp"
#include "texts/suggest.hpp"

namespace ddprun {
namespace {

/// "--max_steps=a_b" as "--max-steps=a_b": the name has dashes, the value stays as it is.
std::string with_dashes(const std::string& argument) {
  if (!argument.starts_with("--")) return argument;
  std::string result = argument;
  std::replace(result.begin(), result.begin() + std::min(result.find('='), result.size()), '_',
               '-');
  return result;
}

bool is_hidden(const CLI::Option& option) { return option.get_group().empty(); }

OptionText option_text(const CLI::Option& option) {
  OptionText text;
  for (const auto& name : option.get_lnames()) text.names.push_back("--" + name);
  for (const auto& name : option.get_snames()) text.names.push_back("-" + name);
  if (option.get_items_expected_max() > 0) {
    const std::string type = option.get_type_name();
    const auto words = words_of(type);
    if (words.size() > 1) {
      text.choices.assign(words.begin(), words.end());
    } else {
      text.placeholder = type;
    }
  }
  text.value_optional = option.get_items_expected_min() == 0 && !text.choices.empty();
  text.help = option.get_description();
  text.default_text = option.get_default_str();
  text.group = option.get_group();
  return text;
}

/// CLI11 knows --help as a flag: the topic behind = is taken away. Nothing: there is none.
std::optional<std::string> take_topic(std::vector<std::string>& arguments) {
  std::optional<std::string> topic;
  for (std::string& argument : arguments) {
    const auto equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (equals == std::string::npos || (name != "--help" && name != "-h")) continue;
    if (equals + 1 < argument.size()) topic = argument.substr(equals + 1);
    argument = name;
  }
  return topic;
}

/// The option that asks for help where it has no topic behind =.
auto help_option(const std::vector<std::string>& arguments) {
  return std::find_if(arguments.begin(), arguments.end(),
                      [](const std::string& word) { return word == "--help" || word == "-h"; });
}

/// The word behind --help, which may be a topic; empty: an option, or nothing.
std::string behind_help(const std::vector<std::string>& arguments) {
  const auto help = help_option(arguments);
  if (help == arguments.end() || help + 1 == arguments.end()) return "";
  return (help + 1)->starts_with('-') ? "" : *(help + 1);
}

std::string needs_value(const std::string& name, const CLI::Option& option) {
  return fmt::format("{0} needs a value: {0}{1}", name, value_hint(option_text(option)));
}

}  // namespace

CommandLine::CommandLine(ProgramText program, std::string help_command,
                         std::function<std::string()> version)
    : program_(std::move(program)),
      help_command_(std::move(help_command)),
      version_(std::move(version)),
      app_("", program_.name) {}

CLI::Option* CommandLine::word(const char* name, std::string_view choices, const char* help,
                               std::function<bool(const std::string&)> known,
                               std::function<void(const std::string&)> take) {
  const auto check = [this, option = std::string(name), choices,
                      known = std::move(known)](const std::string& text) {
    if (known(text)) return std::string();
    const auto words = words_of(choices);
    const auto other = other_values_.find({option, lower_case(text)});
    const auto meant = other != other_values_.end()
                           ? std::optional(other->second)
                           : nearest(lower_case(text), {words.begin(), words.end()});
    return fmt::format("must be one of {}, not {}{}", fmt::join(words, ", "), text,
                       meant ? fmt::format("; did you mean {}?", *meant) : "");
  };
  return app_.add_option_function<std::string>(name, std::move(take), help)
      ->type_name(std::string(choices))
      ->check(CLI::Validator(check, "", ""))
      ->group(group_);
}

CLI::Option* CommandLine::duration(const char* name, std::chrono::nanoseconds& value,
                                   std::chrono::nanoseconds low, const char* help) {
  const auto check = [low](const std::string& text) {
    const auto read = parse_duration(text);
    return read && *read >= low
               ? std::string()
               : fmt::format("must be seconds{}, {}, not {}", low.count() > 0 ? " above 0" : "",
                             kDurationExamples, text);
  };
  return app_
      .add_option_function<std::string>(
          name, [&value](const std::string& text) { value = *parse_duration(text); }, help)
      ->type_name("SECONDS")
      ->check(CLI::Validator(check, "", ""))
      ->default_str(fmt::format("{}", std::chrono::duration<double>(value).count()))
      ->group(group_);
}

/// They are the last group, alike in every program.
void CommandLine::add_own_options() {
  group(program_.name + " itself");
  word(
      "--completion", kShells, "Print the completion script for a shell",
      [](const std::string& shell) { return has_word(kShells, shell); },
      [this](const std::string& shell) { shell_ = shell; });
  word(
      "--man", kManFormats, "Print the manual page, for man -l -; or as Markdown",
      [](const std::string& format) { return has_word(kManFormats, format); },
      [this](const std::string& format) { man_format_ = format; })
      ->expected(0, 1);
  flag("-V,--version", version_wanted_, "Print version, git state, compiler and libraries");
  app_.set_help_flag("-h,--help", std::string(kHelpOfHelp))->group(group_);
}

ProgramText CommandLine::texts() const {
  ProgramText program = program_;
  for (const CLI::Option* option : app_.get_options()) {
    if (is_hidden(*option)) continue;
    program.options.push_back(option_text(*option));
    OptionText& text = program.options.back();
    if (option == app_.get_help_ptr()) {
      text.placeholder = kTopicPlaceholder;
      text.takes_topic = true;
    }
    for (const auto& [name, command] : program_.option_examples) {
      if (name == text.names.front()) text.example = command;
    }
  }
  return program;
}

std::vector<std::string> CommandLine::given() const {
  std::vector<std::string> names;
  // get_name() of an option without a group is empty.
  for (const CLI::Option* option : app_.parse_order())
    if (!option->get_lnames().empty()) names.push_back("--" + option->get_lnames().front());
  return names;
}

CommandLineEnd CommandLine::wrong(std::string message) const {
  std::replace(message.begin(), message.end(), '\n', ' ');
  return {true, fmt::format("{}: {}\n", program_.name, printable(message))};
}

/// What to type for an option of other programs that is `option` here.
std::string CommandLine::text_instead(const std::string& option, const std::string& value) const {
  const CLI::Option* known = app_.get_option_no_throw(option);
  if (known == nullptr || known->get_items_expected_max() == 0 || value.empty()) return option;
  if (const auto other = other_values_.find({option, lower_case(value)});
      other != other_values_.end())
    return other->second;
  const OptionText text = option_text(*known);
  const bool fits = text.choices.empty() || std::find(text.choices.begin(), text.choices.end(),
                                                      lower_case(value)) != text.choices.end();
  return option + (fits ? "=" + shell_word(value) : value_hint(text));
}

CommandLineEnd CommandLine::unknown(const std::string& name, std::string value) const {
  const std::string letters = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  if (auto misplaced = misplaced_option(program_.name, letters, value); !misplaced.empty())
    return wrong(std::move(misplaced));
  if (const auto other = other_names_.find(letters); other != other_names_.end()) {
    return wrong(fmt::format("unknown option {}; did you mean {}?", name,
                             text_instead(other->second, value)));
  }
  if (const auto found = not_needed_.find(letters); found != not_needed_.end())
    return wrong(fmt::format("unknown option {}; leave it out: {}", name, found->second));
  std::vector<std::string> known;
  for (const CLI::Option* option : app_.get_options()) {
    if (is_hidden(*option)) continue;
    const auto& names = option->get_lnames();
    known.insert(known.end(), names.begin(), names.end());
  }
  const auto meant = nearest(letters, known);
  return wrong(meant ? fmt::format("unknown option {}; did you mean --{}?", name, *meant)
                     : fmt::format("unknown option {}; see {}", name, help_command_));
}

/// `rest`: what was not understood, in order. A word behind an option may be its value. All options
/// are named, one a line, and a word before the first one.
CommandLineEnd CommandLine::unknown(const std::vector<std::string>& rest) const {
  const auto is_option = [](const std::string& word) {
    return word.size() > 1 && word[0] == '-' &&
           std::isdigit(static_cast<unsigned char>(word[1])) == 0;
  };
  // A word that is no number may be an argument that was meant for another program.
  const auto is_number = [](const std::string& word) {
    return word.find_first_not_of("0123456789.e-") == std::string::npos &&
           word.find_first_of("0123456789") == 0;
  };
  // The value stands right behind the letter: -j4.
  const auto is_letter_with_value = [&](const std::string& name) {
    const std::string letter = name.substr(1, 1);
    return name.size() > 2 && is_number(name.substr(2)) &&
           (other_names_.contains(letter) || not_needed_.contains(letter));
  };
  CommandLineEnd end{.wrong = true, .text = {}};
  if (rest.empty() || !is_option(rest.front())) {
    const std::string argument = rest.empty() ? "" : rest.front();
    end = wrong(fmt::format("unexpected argument {}; all settings are options, see {}",
                            argument.substr(0, argument.find('=')), help_command_));
  }
  for (auto word = rest.begin(); word != rest.end(); ++word) {
    if (!is_option(*word)) continue;
    std::string name = word->substr(0, word->find('='));
    std::string value = word->substr(std::min(name.size() + 1, word->size()));
    if (is_letter_with_value(name)) {
      value = name.substr(2);
      name.resize(2);
    }
    if (name == *word && word + 1 != rest.end() && is_number(word[1])) value = word[1];
    end.text += unknown(name, std::move(value)).text;
  }
  return end;
}

/// CLI11 words a missing value as `--epochs: 1 required N missing`, and two options that exclude
/// each other as `--batch excludes --global-batch`.
std::string CommandLine::in_our_words(std::string message) const {
  constexpr std::string_view kExcludes = " excludes ";
  if (const std::size_t at = message.find(kExcludes); at != std::string::npos)
    return fmt::format("{} and {} cannot be given together: leave out one of them",
                       message.substr(0, at), message.substr(at + kExcludes.size()));
  const std::string name = message.substr(0, message.find(':'));
  const CLI::Option* option = app_.get_option_no_throw(name);
  if (option != nullptr && message.starts_with(name + ": At Most 1 required but received "))
    return fmt::format("{} is given several times: give it once", name);
  if (option == nullptr || !message.starts_with(name + ": 1 required ") ||
      !message.ends_with(" missing")) {
    return message;
  }
  return needs_value(name, *option);
}

std::optional<CommandLineEnd> CommandLine::parse(const std::vector<std::string>& arguments) {
  add_own_options();
  std::vector<std::string> reversed;  // the order that CLI11 wants
  std::transform(arguments.rbegin(), arguments.rend(), std::back_inserter(reversed), with_dashes);
  // The value follows = only: CLI11 would take the next word.
  std::replace(reversed.begin(), reversed.end(), std::string("--man"),
               "--man=" + std::string(words_of(kManFormats).front()));
  const std::optional<std::string> topic = take_topic(reversed);
  // CLI11 would read a flag's value as a truth value, and take the next argument for an empty one,
  // as of a variable that is not set.
  for (auto argument = reversed.rbegin(); argument != reversed.rend(); ++argument) {
    const std::string name = argument->substr(0, argument->find('='));
    if (!name.starts_with("--") || name == *argument) continue;
    const CLI::Option* option = app_.get_option_no_throw(name);
    if (option == nullptr) continue;
    if (option->get_items_expected_max() == 0)
      return wrong(
          fmt::format("{0} takes no value: write {0} alone (see {1})", name, help_command_));
    if (*argument == name + "=")
      return wrong(fmt::format("{} (see {})", needs_value(name, *option), help_command_));
  }
  try {
    app_.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    if (!topic) {
      std::string shown = help_of_topic(texts(), behind_help(arguments));
      const auto asked = help_option(arguments);
      if (shown.empty() && asked != arguments.end() && *asked == "-h") shown = program_.short_help;
      return CommandLineEnd{false, shown.empty() ? help(texts()) : std::move(shown)};
    }
    auto shown = topic_help(texts(), *topic);
    return shown.found ? CommandLineEnd{false, std::move(shown.text)}
                       : wrong(std::move(shown.text));
  } catch (const CLI::ExtrasError&) {
    return unknown(app_.remaining());
  } catch (const CLI::ParseError& error) {
    CommandLineEnd end =
        wrong(fmt::format("{} (see {})", in_our_words(error.what()), help_command_));
    const std::vector<std::string> rest = app_.remaining();
    if (!rest.empty()) end.text += unknown(rest).text;
    return end;
  }
  if (version_wanted_) return CommandLineEnd{false, version_()};
  if (!man_format_.empty()) return CommandLineEnd{false, page_in(texts(), man_format_)};
  if (!shell_.empty()) return CommandLineEnd{false, completion(texts(), shell_)};
  return std::nullopt;
}

}  // namespace ddprun
