#include "texts/help_topic.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/joined.hpp"
#include "base/lower_case.hpp"
#include "texts/misplaced_option.hpp"
#include "texts/suggest.hpp"
#include "texts/words.hpp"

namespace ddprun {
namespace {

/// As topics are written: `Exit status` is `exit-status`.
std::string as_topic(std::string_view text) {
  std::string topic = lower_case(text);
  std::replace_if(
      topic.begin(), topic.end(), [](char c) { return c == ' ' || c == '_'; }, '-');
  std::erase(topic, ',');
  return topic;
}

std::string without_dashes(const std::string& topic) {
  return topic.substr(std::min(topic.find_first_not_of('-'), topic.size()));
}

std::string first_word(std::string_view title) {
  const std::string topic = as_topic(title);
  return topic.substr(0, topic.find('-'));
}

/// Groups and sections in the order of the help.
std::vector<std::string> titles(const ProgramText& program) {
  std::vector<std::string> all;
  const auto add = [&all](const std::string& title) {
    if (!title.empty() && std::find(all.begin(), all.end(), title) == all.end())
      all.push_back(title);
  };
  for (const auto& option : program.options) add(option.group);
  for (const auto& section : program.sections) add(section.title);
  return all;
}

std::vector<std::string> words_for_title(const ProgramText& program, const std::string& title) {
  std::vector<std::string> words;
  for (const auto& [entry, list] : program.topics) {
    if (entry != title) continue;
    for (const auto word : words_of(list)) words.emplace_back(word);
  }
  if (words.empty()) words.push_back(first_word(title));
  words.push_back(as_topic(title));
  return words;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

const OptionText* option_named(const ProgramText& program, const std::string& name) {
  for (const auto& option : program.options) {
    if (contains(option.names, "--" + name) || contains(option.names, "-" + name)) return &option;
  }
  return nullptr;
}

/// In lower case, without what stands between them. The names of other options in a text are no
/// words of it.
std::vector<std::string> words_in(std::string_view text) {
  std::vector<std::string> words;
  bool within = false;
  bool in_name = false;
  char before = ' ';
  for (const char c : lower_case(text)) {
    const bool part = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    in_name = in_name ? part || c == '-' || c == '_' : c == '-' && before == '-';
    if (part && !in_name && !within) words.emplace_back();
    if (part && !in_name) words.back() += c;
    within = part && !in_name;
    before = c;
  }
  return words;
}

std::string_view singular(std::string_view word) {
  return word.size() > 3 && word.ends_with('s') ? word.substr(0, word.size() - 1) : word;
}

/// `restart` and `restarts` are forms of each other; `hanging` is one of `hang`.
bool is_form_of(std::string_view word, std::string_view typed) {
  const std::string_view stem = singular(typed);
  if (singular(word) == stem) return true;
  return word.starts_with(stem) &&
         (word.substr(stem.size()) == "ed" || word.substr(stem.size()) == "ing");
}

/// Whether each of the typed words is one of the text's.
bool has_words(std::string_view text, const std::vector<std::string>& typed) {
  const auto words = words_in(text);
  return std::all_of(typed.begin(), typed.end(), [&](const std::string& wanted) {
    return std::any_of(words.begin(), words.end(),
                       [&](const std::string& word) { return is_form_of(word, wanted); });
  });
}

bool has_words(const OptionText& option, const std::vector<std::string>& typed) {
  return has_words(option.help + " " + option.more + " " + option.placeholder + " " +
                       joined(option.choices, " ") + " " + option.variable,
                   typed);
}

/// Also where the title begins so: `env` is short for Environment.
bool has_words(const TextSection& section, const std::vector<std::string>& typed) {
  if (typed.size() == 1 && lower_case(section.title).starts_with(typed.front())) return true;
  std::string text = section.title + " " + section.text;
  for (const auto& [term, meaning] : section.terms) text += " " + term + " " + meaning;
  return has_words(text, typed);
}

/// Options with the words: those with them in a name first, and those without effect last.
struct OptionsFound {
  std::vector<const OptionText*> by_name;
  std::vector<const OptionText*> by_text;
  std::vector<const OptionText*> without_effect;
};

OptionsFound options_with(const ProgramText& program, const std::vector<std::string>& typed) {
  OptionsFound found;
  for (const auto& option : program.options) {
    const bool named = std::any_of(option.names.begin(), option.names.end(), [&](const auto& name) {
      return has_words(without_dashes(name), typed);
    });
    if (!named && !has_words(option, typed)) continue;
    auto& list = !option.no_effect.empty() ? found.without_effect
                 : named                   ? found.by_name
                                           : found.by_text;
    list.push_back(&option);
  }
  return found;
}

/// All that has the words. An option that alone has them in its name is shown as a whole. Empty:
/// there is nothing.
std::string found_by_words(const ProgramText& program, const std::string& word) {
  const auto typed = words_in(word);
  if (word.size() < 3 || typed.empty()) return "";
  OptionsFound found = options_with(program, typed);
  std::string whole;
  if (found.by_name.size() == 1) {
    whole = help_of_option(*found.by_name.front());
    found.by_name.clear();
  }
  std::string list;
  for (const auto* part : {&found.by_name, &found.by_text}) {
    for (const OptionText* option : *part) list += help_entry(*option);
  }
  for (const auto& section : program.sections) {
    if (has_words(section, typed))
      list += help_entry("--help=" + words_for_title(program, section.title).front(),
                         "The section \"" + section.title + "\"");
  }
  for (const OptionText* option : found.without_effect) list += help_entry(*option);
  if (list.empty()) return whole;
  return whole + (whole.empty() ? "With" : "\nAlso with") + " this word: " + word + "\n" + list;
}

std::optional<std::string> nearest_topic(const ProgramText& program, const std::string& word) {
  std::vector<std::string> known;
  for (const auto& title : titles(program)) {
    const auto words = words_for_title(program, title);
    known.insert(known.end(), words.begin(), words.end());
  }
  for (const auto& option : program.options) {
    if (!option.no_effect.empty()) continue;
    for (const auto& name : option.names) known.push_back(name.substr(name.find_first_not_of('-')));
  }
  return nearest(word, known);
}

/// Where another program of ours has an option of this name: how to see it.
std::string of_other_program(const ProgramText& program, const std::string& name) {
  const std::string_view owner = program_with_option(name);
  if (owner.empty() || owner == program.name) return "";
  return name + " is an option of " + std::string(owner) + ": " +
         (owner == "train" ? "ddprun train" : std::string(owner)) + " --help=" + name + " shows it";
}

TopicHelp unknown(const ProgramText& program, std::string_view typed, const std::string& word) {
  const std::string other = of_other_program(program, word);
  if (auto found = found_by_words(program, word); !found.empty())
    return {true, found + (other.empty() ? "" : "\n" + other + ".\n")};
  const std::string text = "--help=" + std::string(typed) + ": ";
  if (!other.empty()) return {false, text + other};
  const std::string nothing = text + "no group or option has this name";
  if (const auto meant = nearest_topic(program, word))
    return {false, nothing + "; did you mean --help=" + *meant + "?"};
  return {false, nothing + "; the groups are " + joined(group_topics(program), ", ")};
}

}  // namespace

std::vector<std::string> group_topics(const ProgramText& program) {
  std::vector<std::string> all;
  for (const auto& title : titles(program)) {
    const std::string word = words_for_title(program, title).front();
    if (!contains(all, word)) all.push_back(word);
  }
  return all;
}

std::vector<std::string> all_topics(const ProgramText& program) {
  std::vector<std::string> all = group_topics(program);
  for (const auto& option : program.options) {
    const std::string name = option.names.front().substr(2);
    if (!contains(all, name)) all.push_back(name);
  }
  return all;
}

std::string topics_sentence(const ProgramText& program) {
  return "--help=GROUP shows one group: " + joined(group_topics(program), ", ") +
         ". --help=OPTION shows one option with an example, as in --help=" +
         (program.options.empty() ? "NAME" : program.options.front().names.front().substr(2)) + ".";
}

std::string help_of_topic(const ProgramText& program, std::string_view topic) {
  const std::string typed = as_topic(topic);
  const std::string name = without_dashes(typed);
  std::string text;
  for (const auto& title : titles(program)) {
    if (!typed.starts_with('-') && contains(words_for_title(program, title), name))
      text += (text.empty() ? "" : "\n") + help_part(program, title);
  }
  if (const OptionText* option = option_named(program, name))
    text += (text.empty() ? "" : "\n") + help_of_option(*option);
  return text;
}

TopicHelp topic_help(const ProgramText& program, std::string_view topic) {
  for (const std::string& typed : {std::string(topic), std::string(topic) + "s"}) {
    if (auto text = help_of_topic(program, typed); !text.empty()) return {true, std::move(text)};
  }
  return unknown(program, topic, without_dashes(as_topic(topic)));
}

}  // namespace ddprun
