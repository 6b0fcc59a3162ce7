#include <algorithm>
#include <cctype>
#include <cstddef>

#include "texts/program_text.hpp"

namespace ddprun {
namespace {

/// Text that Markdown prints as it stands.
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '&') {
      result += "&amp;";
    } else {
      if (std::string_view("\\`*_{}[]>#").find(c) != std::string_view::npos) result += '\\';
      result += c;
    }
  }
  return result;
}

std::string code(std::string_view text) { return "`" + std::string(text) + "`"; }

std::string block(std::string_view command) {
  return "```sh\n" + std::string(command) + "\n```\n\n";
}

/// The word of these letters that `text` begins with, without a full stop or a dash at its end.
std::string_view word_at(std::string_view text, std::string_view letters) {
  std::string_view word = text.substr(0, text.find_first_not_of(letters));
  while (!word.empty() && (word.back() == '.' || word.back() == '-')) word.remove_suffix(1);
  return word;
}

/// `--gpus=none` where `text` begins with it and `name` is `--gpus`.
std::string_view with_value(std::string_view text, std::string_view name) {
  if (name.size() >= text.size() || text[name.size()] != '=') return name;
  const std::string_view word = text.substr(0, text.find_first_of(" ,;()"));
  return word.substr(0, word.find_last_not_of(".:") + 1);
}

constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyz-_";
constexpr std::string_view kPathLetters = "abcdefghijklmnopqrstuvwxyz-_./";

/// Running text: options are links to their headings, documents are links.
std::string prose(const ProgramText& program, std::string_view text) {
  std::string result;
  std::size_t written = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = at == 0 || text[at - 1] == ' ' || text[at - 1] == '(';
    if (!begins) continue;
    const std::string_view rest = text.substr(at);
    std::string replaced;
    std::string_view word;
    if (rest.starts_with("docs/")) {
      word = word_at(rest, kPathLetters);
      if (!word.ends_with(".md")) continue;
      const std::string name(word.substr(5, word.size() - 8));
      replaced = "[" + name + "](../" + name + ".md)";
    } else if (rest.starts_with("--") && rest.size() > 2 && rest[2] >= 'a' && rest[2] <= 'z') {
      const std::string_view name = word_at(rest, kNameLetters);
      word = with_value(rest, name);
      const auto known =
          std::find_if(program.options.begin(), program.options.end(), [name](const auto& option) {
            return std::find(option.names.begin(), option.names.end(), name) != option.names.end();
          });
      replaced = known == program.options.end()
                     ? code(word)
                     : "[" + code(word) + "](#" + known->names.front() + ")";
    } else {
      continue;
    }
    result += plain(text.substr(written, at - written)) + replaced;
    written = at + word.size();
    at = written - 1;
  }
  return result + plain(text.substr(written));
}

/// Each line of `text` as a paragraph.
std::string paragraphs(const ProgramText& program, std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    result += prose(program, text.substr(0, end)) + "\n\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::string sentence(std::string text) {
  if (!text.empty())
    text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string option_entry(const ProgramText& program, const OptionText& option) {
  const std::string& option_name = option.names.front();
  std::string text = "#### " + code(option_name) + "\n\n";
  if (const std::string hint = value_hint(option); !hint.empty())
    text += code(option_name + hint) + "\n\n";
  text += prose(program, option.help) + ".";
  if (!option.more.empty()) text += " " + prose(program, option.more);
  if (!option.no_effect.empty())
    text += " It has no effect: " + prose(program, option.no_effect) + ".";
  text += "\n\n";
  std::string also;  // without those that only have underscores in place of dashes
  for (const auto& name : option.names) {
    if (name != option_name && name.find('_') == std::string::npos)
      also += (also.empty() ? "Also " : ", ") + code(name);
  }
  std::string facts;
  const auto add = [&facts](const std::string& fact) {
    facts += (facts.empty() ? "" : " ") + fact + ".";
  };
  if (!option.default_text.empty()) add("Default: " + plain(option.default_text));
  if (!option.variable.empty()) add("Variable: " + code(option.variable));
  if (!also.empty()) add(also);
  if (!facts.empty()) text += facts + "\n\n";
  if (!option.example.empty()) text += block(option.example);
  return text;
}

}  // namespace

std::string markdown_page(const ProgramText& program) {
  std::string text = "# " + program.name + "\n\n" + sentence(program.purpose) + ".\n\n" +
                     "```text\n" + program.synopsis + "\n```\n\n" +
                     paragraphs(program, program.description) + "## Examples\n\n";
  for (const auto& [command, meaning] : program.examples)
    text += plain(sentence(meaning)) + ":\n\n" + block(command);
  text += "## Options\n\n" + prose(program, kOptionRules) + "\n\n" +
          paragraphs(program, program.option_rules);
  std::string_view group;
  for (const auto& option : program.options) {
    if (option.group != group) text += "### " + plain(option.group) + "\n\n";
    text += option_entry(program, option);
    group = option.group;
  }
  for (const auto& section : program.sections) {
    text += "## " + plain(section.title) + "\n\n" + paragraphs(program, section.text);
    for (const auto& [term, meaning] : section.terms)
      text += "- " + code(term) + ": " + prose(program, meaning) + ".\n";
    if (!section.terms.empty()) text += "\n";
  }
  text.pop_back();  // the empty line at the end
  return text;
}

}  // namespace ddprun
