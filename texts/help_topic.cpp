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

/// The only option whose name begins so, as command lines may write it. Null: none, or several.
const OptionText* option_that_begins(const ProgramText& program, const std::string& name) {
  const OptionText* found = nullptr;
  for (const auto& option : program.options) {
    const bool begins = std::any_of(option.names.begin(), option.names.end(),
                                    [&](const auto& one) { return one.starts_with("--" + name); });
    if (!begins) continue;
    if (found != nullptr) return nullptr;
    found = &option;
  }
  return found;
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
  const std::string text = "--help=" + std::string(typed) + ": ";
  if (const std::string other = of_other_program(program, word); !other.empty())
    return {false, text + other};
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
  const std::string word = without_dashes(as_topic(topic));
  if (const OptionText* option = word.empty() ? nullptr : option_that_begins(program, word))
    return {true, help_of_option(*option)};
  return unknown(program, topic, word);
}

}  // namespace ddprun
