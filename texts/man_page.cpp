#include <algorithm>
#include <cctype>
#include <cstddef>

#include "base/version.hpp"
#include "texts/program_text.hpp"

namespace ddprun {
namespace {

/// Text that roff prints as it stands: dashes can be copied, nothing at the line's start is a
/// request.
std::string roff(std::string_view text, bool at_line_start = true) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else if (c == '.' && result.empty() && at_line_start) {
      result += "\\&.";
    } else {
      result += c;
    }
  }
  return result;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }

std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

/// Running text; the options in it are bold.
std::string prose(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    std::size_t begin = text.find("--");
    while (begin != std::string_view::npos &&
           ((begin > 0 && text[begin - 1] != ' ' && text[begin - 1] != '(') ||
            begin + 2 >= text.size() || text[begin + 2] < 'a' || text[begin + 2] > 'z')) {
      begin = text.find("--", begin + 1);
    }
    result += roff(text.substr(0, begin), result.empty());
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const auto name = text.substr(0, text.find_first_not_of("abcdefghijklmnopqrstuvwxyz-_"));
    result += bold(name);
    text.remove_prefix(name.size());
  }
  return result;
}

/// Each line of `text` as a paragraph.
std::string roff_paragraphs(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    result += (result.empty() ? "" : ".PP\n") + prose(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

/// Words to type are bold, words in capitals stand for something else.
std::string synopsis(std::string_view text) {
  const auto kind = [](char c) {
    return c >= 'A' && c <= 'Z' ? 'I' : (c >= 'a' && c <= 'z') || c == '-' ? 'B' : 'R';
  };
  std::string result;
  while (!text.empty()) {
    std::size_t end = 1;
    while (end < text.size() && kind(text[end]) == kind(text[0])) ++end;
    result += std::string("\\f") + kind(text[0]) + roff(text.substr(0, end));
    text.remove_prefix(end);
  }
  return result + "\\fR\n";
}

std::string roff_terms(const std::vector<Term>& all) {
  std::string text;
  for (const auto& [term, meaning] : all) {
    const std::string sentence = upper(meaning.substr(0, 1)) + meaning.substr(1) + ".\n";
    text += ".TP\n" + bold(term) + "\n" + prose(sentence);
  }
  return text;
}

/// A list of choices may be broken into lines behind each |.
std::string breakable(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '|' ? "|\\:" : std::string(1, c);
  return result;
}

std::string roff_entry(const OptionText& option) {
  std::string names;
  for (const auto& name : option.names) names += (names.empty() ? "" : ", ") + bold(name);
  const std::string hint = value_hint(option);
  const bool free = !option.placeholder.empty() && option.choices.empty() && !option.takes_topic;
  std::string text = ".TP\n" + names +
                     (free ? "=" + italic(hint.substr(1)) : breakable(roff(hint))) + "\n" +
                     prose(option.help) + ".\n";
  if (!option.more.empty()) text += prose(option.more) + "\n";
  if (!option.no_effect.empty()) text += "It has no effect: " + prose(option.no_effect) + ".\n";
  if (!option.default_text.empty()) text += "Default: " + roff(option.default_text) + ".\n";
  if (!option.variable.empty()) text += "Variable: " + bold(option.variable) + ".\n";
  if (!option.example.empty()) text += "Example: " + bold(option.example) + "\n";
  return text;
}

}  // namespace

std::string man_page(const ProgramText& program) {
  std::string text = ".TH " + upper(program.page) + " " + std::to_string(program.page_section) +
                     " \"\" \"ddprun " + roff(version()) + "\"" +
                     (program.page_section == 1 ? " \"User Commands\"\n" : "\n");
  text += ".SH NAME\n" + roff(program.page) + " \\- " + roff(program.purpose) + "\n";
  text += ".SH SYNOPSIS\n" + synopsis(program.synopsis);
  text += ".SH DESCRIPTION\n" + roff_paragraphs(program.description);
  text += ".SH EXAMPLES\n" + roff_terms(program.examples);
  text += ".SH OPTIONS\n" + prose(kOptionRules) + "\n" + roff_paragraphs(program.option_rules);
  std::string_view group;
  for (const auto& option : program.options) {
    if (option.group != group) text += ".SS " + roff(option.group) + "\n";
    text += roff_entry(option);
    group = option.group;
  }
  for (const auto& section : program.sections) {
    text += ".SH " + roff(upper(section.title)) + "\n" + roff_paragraphs(section.text) +
            roff_terms(section.terms);
  }
  return text + (program.see_also.empty() ? "" : ".SH SEE ALSO\n" + roff(program.see_also) + "\n");
}

std::string page_in(const ProgramText& program, std::string_view format) {
  return format == "markdown" ? markdown_page(program) : man_page(program);
}

}  // namespace ddprun
