#include "rendezvous/daemon/option_text.hpp"

#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "proto/version.hpp"

namespace ddprun::rdzv {
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

constexpr std::string_view kManBegin = R"(.SH NAME
rdzvd \- serves a PyTorch store, for rendezvous and for anyone
.SH SYNOPSIS
.B rdzvd
[\fIOPTIONS\fR]
.SH DESCRIPTION
Serves one key\-value store in the protocol of PyTorch\(aqs TCPStore, in both of its dialects (1.13 and 2.x).
PyTorch\(aqs own clients, torchrun\(aqs agents and the programs of ddprun can use it, unchanged.
The first line on stdout is the address that it listens on.
The keys live in memory and end with the program.
.SH OPTIONS
)";

constexpr std::string_view kManEnd = R"(.SH SIGNALS
SIGTERM, SIGINT and SIGHUP close all connections and end the program with 0.
.SH EXIT STATUS
0 stopped by a signal; 1 it could not listen; 2 the command line is wrong.
.SH EXAMPLES
.TP
.B rdzvd
On 127.0.0.1:29400, for this machine and this user.
.TP
.B rdzvd \-\-listen=[::]:29400 \-\-allow\-uid=any
For the machines of a cluster and all their users.
.TP
.B torchrun \-\-rdzv\-backend=c10d \-\-rdzv\-endpoint=head:29400 \-\-rdzv\-conf=is_host=0 \-\-nnodes=2 train.py
Agents that meet in it.
.SH SECURITY
The protocol has neither authentication nor encryption: whoever can connect can read and change every key.
On loopback the kernel is asked whose each client is; beyond it, only a firewall or a private network keeps strangers out.
.SH SEE ALSO
.BR ddprun (1)
)";

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

std::string bash_completion(const std::vector<OptionText>& options) {
  std::string cases;
  std::vector<std::string> words;
  for (const OptionText& option : options) {
    for (const std::string& name : option.names) {
      words.push_back(option.value.empty() || name.size() == 2 ? name : name + "=");
      if (!option.words.empty()) {
        cases += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n",
                             name, fmt::join(option.words, " "));
      }
    }
  }
  return fmt::format(
      "# bash completion of rdzvd\n"
      "_rdzvd() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  if [[ $word == \"=\" ]]; then word=; elif [[ $before == \"=\" ]]; then "
      "before=${{COMP_WORDS[COMP_CWORD-2]}}; fi\n"
      "  case $before in\n{}  esac\n"
      "  COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))\n"
      "  [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace\n"
      "}}\n"
      "complete -F _rdzvd rdzvd\n",
      cases, fmt::join(words, " "));
}

std::string zsh_completion(const std::vector<OptionText>& options) {
  std::string lines;
  for (const OptionText& option : options) {
    for (const std::string& name : option.names) {
      const bool flag = option.value.empty();
      lines += fmt::format(
          "  '{}{}[{}]{}' \\\n", name, flag || name.size() == 2 ? "" : "=",
          zsh_escaped(option.help),
          flag ? ""
               : fmt::format(":{}:({})", zsh_escaped(option.value), fmt::join(option.words, " ")));
    }
  }
  return "#compdef rdzvd\n_arguments -s \\\n" + lines + "  '*: :'\n";
}

std::string fish_completion(const std::vector<OptionText>& options) {
  std::string lines = "# fish completion of rdzvd\n";
  for (const OptionText& option : options) {
    std::string line = "complete -c rdzvd -f";
    for (const std::string& name : option.names) {
      line += name.size() == 2 ? " -s " + name.substr(1) : " -l " + name.substr(2);
    }
    if (!option.value.empty()) line += " -x";
    if (!option.words.empty()) line += fmt::format(" -a '{}'", fmt::join(option.words, " "));
    lines += line + " -d " + fish_quoted(option.help) + "\n";
  }
  return lines;
}

}  // namespace

std::string man_page(const std::vector<OptionText>& options) {
  std::string text = fmt::format(".TH RDZVD 8 \"\" \"ddprun {}\"\n{}", proto::version(), kManBegin);
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
  return text + std::string(kManEnd);
}

std::string completion(const std::vector<OptionText>& options, const std::string& shell) {
  if (shell == "bash") return bash_completion(options);
  if (shell == "zsh") return zsh_completion(options);
  if (shell == "fish") return fish_completion(options);
  return "";
}

}  // namespace ddprun::rdzv
