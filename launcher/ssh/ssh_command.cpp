#include "launcher/ssh/ssh_command.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/shell_word.hpp"

namespace ddprun::launcher {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

}  // namespace

LaunchResult<std::vector<std::string>> words_of_command(std::string_view text,
                                                        std::string_view spelling) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = '\0';
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote == '\0' && is_blank(c)) {
      in_word = false;
      continue;
    }
    if (!std::exchange(in_word, true)) words.emplace_back();
    if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote && quote != '\0') {
      quote = '\0';
    } else if (c == '\\' && quote != '\'' && at + 1 < text.size()) {
      words.back() += text[++at];
    } else {
      words.back() += c;
    }
  }
  if (quote != '\0')
    return usage_error(fmt::format("{}: a quote ({}) is not closed", spelling, quote));
  if (words.empty() || words.front().empty())
    return usage_error(
        fmt::format("{}: expected a command, as in --ssh=\"ssh -p 2222\"", spelling));
  return words;
}

std::string remote_command(const SshCommand& command, const std::string& socket) {
  const bool is_told = !command.remote_path.empty();
  const std::string_view any =
      is_told ? "" : "command -v ddprun >/dev/null && exec ddprun --ssh-node \"$1\"; ";
  const std::string script = fmt::format(
      "test -x \"$0\" && exec \"$0\" {0} \"$1\"; {1}rm -f \"$1\"; "
      "echo \"$0: not found, or not executable\" >&2; exit 127",
      kNodeArgument, any);
  const std::string path = is_told ? command.remote_path : command.own_path;
  return fmt::format("exec sh -c {} {} {}", shell_word(script),
                     shell_word(path.empty() ? "ddprun" : path), shell_word(socket));
}

std::vector<std::string> ssh_arguments(const SshCommand& command, const std::string& host,
                                       const std::string& socket, std::uint16_t port) {
  std::vector<std::string> words{command.ssh.front()};
  const auto option = [&words](std::string text) {
    words.emplace_back("-o");
    words.push_back(std::move(text));
  };
  // The first value counts: on these the job's end depends, so --ssh cannot change them. A shared
  // connection would outlive the job.
  option("BatchMode=yes");
  option("ControlMaster=no");
  option("ControlPath=none");
  option("ExitOnForwardFailure=yes");
  words.emplace_back("-T");
  words.insert(words.end(), command.ssh.begin() + 1, command.ssh.end());
  option(fmt::format("ConnectTimeout={}", kConnectSeconds));
  option(fmt::format("ServerAliveInterval={}", kAliveSeconds));
  option(fmt::format("ServerAliveCountMax={}", kAliveTimes));
  option("LogLevel=ERROR");
  words.emplace_back("-R");
  words.push_back(fmt::format("{}:127.0.0.1:{}", socket, port));
  words.emplace_back("--");
  words.push_back(host);
  words.push_back(remote_command(command, socket));
  return words;
}

}  // namespace ddprun::launcher
