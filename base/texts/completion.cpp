#include <algorithm>
#include <iterator>

#include "base/texts/program_text.hpp"

namespace ddprun {
namespace {

bool takes_value(const OptionText& option) {
  return !option.placeholder.empty() || !option.choices.empty();
}

/// A value that may stand in the next word is needed.
bool takes_next_word(const OptionText& option) {
  return takes_value(option) && !option.value_optional;
}

bool is_folder(const OptionText& option) {
  return option.placeholder == "FOLDER" || option.placeholder == "DIR";
}

bool is_file(const OptionText& option) { return option.placeholder == "FILE"; }

bool is_short(const std::string& name) { return name.size() == 2; }

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : std::string(between)) + word;
  return text;
}

/// For use inside single quotes; a backslash before each of `special`.
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

std::string fish_text(std::string_view text) { return escaped(text, "\\", "\\'"); }

/// Also without what _arguments would take apart.
std::string zsh_text(std::string_view text) { return escaped(text, "\\[]:", "'\\''"); }

/// The names that bash compares: it sees underscores as dashes.
std::vector<std::string> dashed_names(const OptionText& option) {
  std::vector<std::string> names;
  std::copy_if(option.names.begin(), option.names.end(), std::back_inserter(names),
               [](const auto& name) { return name.find('_') == std::string::npos; });
  return names;
}

/// Sets `option` to the one whose value is being typed, or to `program` from PROGRAM on, at place
/// i.
std::string bash_walk(const ProgramText& program, const std::string& with_value) {
  std::string text =
      "  local i=1\n"
      "  # Bash takes --name=value apart at the equals sign; walk until PROGRAM.\n"
      "  while ((i < COMP_CWORD)); do\n"
      "    case ${COMP_WORDS[i]//_/-} in\n"
      "      --) option=program; ((i++)); break ;;\n"
      "      " +
      with_value +
      ")\n"
      "        option=${COMP_WORDS[i]}\n"
      "        [[ ${COMP_WORDS[i+1]} == = ]] && ((i++))\n"
      "        ((i++)) ;;\n"
      "      -*) [[ ${COMP_WORDS[i+1]} == = ]] && option=${COMP_WORDS[i]} && ((i += 2)) ;;\n"
      "      *) option=program; break ;;\n"
      "    esac\n"
      "    ((i >= COMP_CWORD)) && break\n"
      "    option=\n"
      "    ((i++))\n"
      "  done\n";
  for (const auto& [name, meaning] : program.own_programs) {
    const std::string function = "_ddprun_" + name;
    text += "  if [[ $option == program && $i -lt $COMP_CWORD && ${COMP_WORDS[i]} == " + name +
            " ]]; then\n"
            "    # It has a completion of its own, in the file `" +
            name +
            "`.\n"
            "    declare -F " +
            function + " >/dev/null || _comp_load " + name + " 2>/dev/null || __load_completion " +
            name +
            " 2>/dev/null\n"
            "    ! declare -F " +
            function + " >/dev/null || { " + function +
            "; return; }\n"
            "  fi\n";
  }
  return text +
         "  if [[ $option == program && $i -lt $COMP_CWORD ]]; then\n"
         "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "    compopt -o filenames\n"
         "    return\n"
         "  fi\n"
         "  [[ $word == = ]] && word=\n";
}

/// The same where only the word before counts: no PROGRAM follows, or the line begins with another
/// program.
std::string bash_look_back(const std::string& with_value) {
  return "  # Bash takes --name=value apart at the equals sign.\n"
         "  option=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  if [[ $word == = ]]; then\n"
         "    word=\n"
         "  elif [[ $option == = ]]; then\n"
         "    option=${COMP_WORDS[COMP_CWORD-2]}\n"
         "  else\n"
         "    case ${option//_/-} in\n"
         "      " +
         with_value +
         ") ;;\n"
         "      *) option= ;;\n"
         "    esac\n"
         "  fi\n";
}

std::string bash_script(const ProgramText& program) {
  std::vector<std::string> all, with_value, bundled;
  std::string values;
  for (const auto& option : program.options) {
    const auto names = dashed_names(option);
    all.push_back(names.front() + (takes_next_word(option) ? "=" : ""));
    const std::string place = "      " + joined(names, "|") + ") ";
    if (!option.choices.empty()) {
      values += place + "words=\"" + joined(option.choices, " ") + "\" ;;\n";
    } else if (is_folder(option) || is_file(option)) {
      values += place + "COMPREPLY=($(compgen -" + (is_file(option) ? "f" : "d") +
                " -- \"$word\")); compopt -o filenames; return ;;\n";
    }
    if (takes_next_word(option)) with_value.insert(with_value.end(), names.begin(), names.end());
  }
  for (const auto& [name, meaning] : program.own_programs) bundled.push_back(name);
  const std::string function = "_ddprun_" + program.name;
  const std::string with = joined(with_value, "|");
  return "# bash completion for " + program.name + "; generated by " + program.name +
         " --completion=bash\n" + function +
         "() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} words= option=\n"
         "  COMPREPLY=()\n" +
         (program.takes_program ? bash_walk(program, with) : bash_look_back(with)) +
         "  if [[ -n $option && $option != program ]]; then\n"
         "    case ${option//_/-} in\n" +
         values +
         "    esac\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n" +
         (program.takes_program ? "  elif [[ $word == -* && $option != program ]]; then\n"
                                : "  else\n") +
         "    COMPREPLY=($(compgen -W \"" + joined(all, " ") + "\" -- \"${word//_/-}\"))\n" +
         "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n" +
         (program.takes_program
              ? "  else\n    COMPREPLY=($(compgen -W \"" + joined(bundled, " ") +
                    "\" -- \"$word\") $(compgen -f -- \"$word\") $(compgen -c -- \"$word\"))\n"
                    "    compopt -o filenames\n"
              : "") +
         "  fi\n"
         "}\n"
         "complete -F " +
         function + " " + program.name + "\n";
}

std::string zsh_value(const OptionText& option) {
  if (is_folder(option)) return ":folder:_files -/";
  if (is_file(option)) return ":file:_files";
  const std::string& label =
      option.placeholder.empty() ? option.names.front().substr(2) : option.placeholder;
  const std::string words = option.choices.empty() ? "" : "(" + joined(option.choices, " ") + ")";
  return ":" + escaped(label, ":", "") + ":" + words;
}

std::string zsh_script(const ProgramText& program) {
  std::string text = "#compdef " + program.name + "\n# zsh completion for " + program.name +
                     "; generated by " + program.name +
                     " --completion=zsh\n"
                     "# -S: nothing is an option after --; (-): nor after PROGRAM.\n"
                     "_arguments -S";
  for (const auto& option : program.options) {
    const std::string meaning = "[" + zsh_text(option.help) + "]";
    for (const auto& name : option.names) {
      std::string spec = name + meaning;
      if (option.value_optional) {
        spec = name + "=-" + meaning + ":" + zsh_value(option);
      } else if (takes_value(option)) {
        spec = name + (is_short(name) ? "+" : "=") + meaning + zsh_value(option);
      }
      text += " \\\n  '" + spec + "'";
    }
  }
  if (!program.takes_program) return text + "\n";
  text += " \\\n  '(-)1:program: _alternative";
  for (const auto& [name, meaning] : program.own_programs)
    text += " \"bundled:" + meaning + ":(" + name + ")\"";
  return text +
         " \"files:file:_files\" \"commands:command:_command_names -e\"' \\\n"
         "  '*::arguments:_normal'\n";
}

/// Succeeds as long as PROGRAM has not been typed.
std::string fish_condition(const ProgramText& program, const std::string& function) {
  std::vector<std::string> with_value;
  for (const auto& option : program.options) {
    if (takes_next_word(option))
      with_value.insert(with_value.end(), option.names.begin(), option.names.end());
  }
  return "# Succeeds as long as PROGRAM has not been typed.\n"
         "function " +
         function +
         "\n"
         "    set -l skip 0\n"
         "    for word in (commandline -opc)[2..-1]\n"
         "        if test $skip = 1\n"
         "            set skip 0\n"
         "            continue\n"
         "        end\n"
         "        switch $word\n"
         "            case " +
         joined(with_value, " ") +
         "\n"
         "                set skip 1\n"
         "            case --\n"
         "                return 1\n"
         "            case '-*'\n"
         "            case '*'\n"
         "                return 1\n"
         "        end\n"
         "    end\n"
         "end\n";
}

std::string fish_value(const OptionText& option) {
  if (!takes_next_word(option)) return "";
  if (is_file(option)) return " -r -F";
  if (is_folder(option)) return " -x -a '(__fish_complete_directories)'";
  return " -x" + (option.choices.empty() ? "" : " -a '" + joined(option.choices, " ") + "'");
}

std::string fish_script(const ProgramText& program) {
  std::string text = "# fish completion for " + program.name + "; generated by " + program.name +
                     " --completion=fish\n";
  std::string start = "complete -c " + program.name;
  if (program.takes_program) {
    const std::string function = "__" + program.name + "_before_program";
    text += fish_condition(program, function);
    start += " -n " + function;
    for (const auto& [name, meaning] : program.own_programs)
      text += start + " -a " + name + " -d '" + fish_text(meaning) + "'\n";
    text += start + " -a '(__fish_complete_command)'\n";
  } else {
    text += start + " -f\n";
  }
  for (const auto& option : program.options) {
    text += start;
    for (const auto& name : option.names)
      text += is_short(name) ? " -s " + name.substr(1) : " -l " + name.substr(2);
    text += fish_value(option) + " -d '" + fish_text(option.help) + "'\n";
  }
  return text;
}

}  // namespace

std::string completion(const ProgramText& program, std::string_view shell) {
  if (shell == "bash") return bash_script(program);
  if (shell == "zsh") return zsh_script(program);
  if (shell == "fish") return fish_script(program);
  return {};
}

}  // namespace ddprun
