#include "texts/completion_parts.hpp"

#include "texts/help_topic.hpp"

namespace ddprun::completions {

bool takes_value(const OptionText& option) {
  return !option.placeholder.empty() || !option.choices.empty();
}

bool is_value_optional(const OptionText& option) {
  return option.value_optional || option.takes_topic;
}

bool takes_next_word(const OptionText& option) {
  return takes_value(option) && !is_value_optional(option);
}

std::vector<std::string> values_of(const ProgramText& program, const OptionText& option) {
  return option.takes_topic ? all_topics(program) : option.choices;
}

bool is_folder(const OptionText& option) {
  return option.placeholder == "FOLDER" || option.placeholder == "DIR";
}

bool is_file(const OptionText& option) { return option.placeholder == "FILE"; }

bool is_short(const std::string& name) { return name.size() == 2; }

std::string escaped(std::string_view text, std::string_view special, std::string_view quote) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += quote;
      continue;
    }
    if (special.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string filled(std::string_view form,
                   const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string text(form);
  for (const auto& [name, value] : values) {
    for (auto at = text.find(name); at != std::string::npos;
         at = text.find(name, at + value.size()))
      text.replace(at, name.size(), value);
  }
  return text;
}

}  // namespace ddprun::completions
