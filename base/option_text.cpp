#include "base/option_text.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/version.hpp"

namespace ddprun {
namespace {

/// Text that roff prints as it stands.
std::string roff_text(std::string_view text) {
  std::string result;
  for (const char character : text) {
    if (character == '\\') {
      result += "\\e";
    } else if (character == '-') {
      result += "\\-";
    } else if (character == '.' && (result.empty() || result.back() == '\n')) {
      result += "\\&.";
    } else {
      result += character;
    }
  }
  return result;
}

std::string fish_quoted(std::string_view text) {
  std::string result = "'";
  for (const char character : text) {
    if (character == '\'' || character == '\\') result += '\\';
    result += character == '\n' ? ' ' : character;
  }
  return result + "'";
}

/// For a zsh specification in single quotes.
std::string zsh_escaped(std::string_view text) {
  std::string result;
  for (const char character : text) {
    if (character == '\'') {
      result += "'\\''";
      continue;
    }
    if (character == '[' || character == ']' || character == ':' || character == '\\') {
      result += '\\';
    }
    result += character == '\n' ? ' ' : character;
  }
  return result;
}

/// A value that is a folder's name.
constexpr std::string_view kFolder = "DIR";

class HelpFormat : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    const std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    return CLI::detail::find_and_replace(text, "\n\n\n", "\n\n");
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = CLI::Formatter::make_option_opts(option);
    return text.substr(0, text.find(" Excludes:"));
  }
};

std::string bash_completion(const std::string& program, const std::vector<OptionText>& options) {
  std::string cases;
  std::vector<std::string> words;
  for (const OptionText& option : options) {
    for (const std::string& name : option.names) {
      words.push_back(option.value.empty() || name.size() == 2 ? name : name + "=");
      if (!option.words.empty()) {
        cases += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n",
                             name, fmt::join(option.words, " "));
      } else if (option.value == kFolder) {
        cases += fmt::format("    {}) COMPREPLY=($(compgen -d -- \"$word\")); return ;;\n", name);
      }
    }
  }
  return fmt::format(
      "# bash completion of {0}\n"
      "_ddprun_{0}() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  if [[ $word == \"=\" ]]; then word=; elif [[ $before == \"=\" ]]; then "
      "before=${{COMP_WORDS[COMP_CWORD-2]}}; fi\n"
      "  case $before in\n{1}  esac\n"
      "  COMPREPLY=($(compgen -W \"{2}\" -- \"$word\"))\n"
      "  [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace\n"
      "}}\n"
      "complete -F _ddprun_{0} {0}\n",
      program, cases, fmt::join(words, " "));
}

std::string zsh_completion(const std::string& program, const std::vector<OptionText>& options) {
  std::string lines;
  for (const OptionText& option : options) {
    for (const std::string& name : option.names) {
      const bool flag = option.value.empty();
      lines += fmt::format(
          "  '{}{}[{}]{}' \\\n", name, flag || name.size() == 2 ? "" : "=",
          zsh_escaped(option.help),
          flag ? ""
          : option.value == kFolder
              ? ":folder:_files -/"
              : fmt::format(":{}:({})", zsh_escaped(option.value), fmt::join(option.words, " ")));
    }
  }
  return "#compdef " + program + "\n_arguments -s \\\n" + lines + "  '*: :'\n";
}

std::string fish_completion(const std::string& program, const std::vector<OptionText>& options) {
  std::string lines = "# fish completion of " + program + "\n";
  for (const OptionText& option : options) {
    std::string line = "complete -c " + program + " -f";
    for (const std::string& name : option.names) {
      line += name.size() == 2 ? " -s " + name.substr(1) : " -l " + name.substr(2);
    }
    if (!option.value.empty()) line += " -x";
    if (!option.words.empty()) line += fmt::format(" -a '{}'", fmt::join(option.words, " "));
    if (option.value == kFolder) line += " -a '(__fish_complete_directories)'";
    lines += line + " -d " + fish_quoted(option.help) + "\n";
  }
  return lines;
}

}  // namespace

void set_help_format(CLI::App& app, std::size_t column) {
  const auto format = std::make_shared<HelpFormat>();
  format->column_width(column);
#if CLI11_VERSION_MAJOR > 2 || (CLI11_VERSION_MAJOR == 2 && CLI11_VERSION_MINOR >= 5)
  // Newer versions wrap texts; ours have their lines already.
  constexpr std::size_t kNoWrap = 1000;
  format->right_column_width(kNoWrap);
  format->description_paragraph_width(kNoWrap);
  format->footer_paragraph_width(kNoWrap);
#endif
  app.formatter(format);
}

std::string parse_error_text(const CLI::App& app, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  // CLI11's words: `--epochs: 1 required N missing`.
  const std::string name = message.substr(0, message.find(':'));
  const CLI::Option* option = app.get_option_no_throw(name);
  if (option == nullptr || !message.starts_with(name + ": 1 required ") ||
      !message.ends_with(" missing")) {
    return message;
  }
  const std::string type = option->get_type_name();
  const bool number = type == "N" || type == "X" || type == "STEP";
  return name + (number ? " needs a number" : " needs a value: " + name + "=" + type);
}

std::vector<OptionText> option_texts(const CLI::App& app,
                                     const std::map<std::string, std::vector<std::string>>& words) {
  std::vector<OptionText> result;
  for (const CLI::Option* option : app.get_options()) {
    OptionText text;
    for (const std::string& name : option->get_snames()) text.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) {
      text.names.push_back("--" + name);
      if (const auto found = words.find(name); found != words.end()) text.words = found->second;
    }
    if (option->get_items_expected_max() > 0) text.value = option->get_type_name();
    text.help = option->get_description();
    if (!option->get_default_str().empty()) {
      text.help += fmt::format(" [{}]", option->get_default_str());
    }
    text.group = option->get_group();
    result.push_back(std::move(text));
  }
  return result;
}

std::string man_page(const ManPage& page, const std::vector<OptionText>& options) {
  std::string title = page.name;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string text =
      fmt::format(".TH {} {} \"\" \"ddprun {}\"\n{}", title, page.section, version(), page.begin);
  std::string group;
  for (const OptionText& option : options) {
    if (option.group != group) {
      group = option.group;
      text += fmt::format(".SS {}\n", roff_text(group));
    }
    std::string names;
    for (const std::string& name : option.names) {
      names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", roff_text(name));
    }
    if (!option.value.empty()) names += fmt::format(" \\fI{}\\fR", roff_text(option.value));
    text += fmt::format(".TP\n{}\n{}\n", names, roff_text(option.help));
  }
  return text + page.end;
}

std::string completion(const std::string& program, const std::vector<OptionText>& options,
                       const std::string& shell) {
  if (shell == "bash") return bash_completion(program, options);
  if (shell == "zsh") return zsh_completion(program, options);
  if (shell == "fish") return fish_completion(program, options);
  return "";
}

}  // namespace ddprun
