#include "launcher/ssh/why_not_started.hpp"

#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "base/describe.hpp"
#include "base/exit_codes.hpp"
#include "base/shell_word.hpp"
#include "base/trimmed.hpp"
#include "launcher/ssh/ssh_command.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kWordsLinesMax = 3;
constexpr std::size_t kWordsBytesMax = 600;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// `ssh-copy-id` with those options of `ssh` that decide which user, host and key are meant.
/// Empty: another program connects.
std::string copy_id_command(const std::string& ssh) {
  const auto words = words_of_command(ssh, "--ssh");
  if (!words || words->front().substr(words->front().rfind('/') + 1) != "ssh") return "";
  std::string command = "ssh-copy-id";
  for (std::size_t at = 1; at < words->size(); ++at) {
    const std::string& word = (*words)[at];
    const char letter = word.size() > 1 && word[0] == '-' ? word[1] : '\0';
    if (letter == '\0' || std::string_view("poFilJ").find(letter) == std::string_view::npos)
      continue;
    std::string value = word.substr(2);
    if (value.empty() && at + 1 < words->size()) value = (*words)[++at];
    if (letter == 'l' || letter == 'J')  // which ssh-copy-id has not
      command += " -o " + shell_word((letter == 'l' ? "User=" : "ProxyJump=") + value);
    else
      command += " " + word.substr(0, 2) + " " + shell_word(value);
  }
  return command;
}

std::string remedy_for(const std::string& host, const std::string& ssh, std::string_view words) {
  if (contains(words, "Host key verification failed"))
    return fmt::format("; connect once by hand ({} {}) to accept its key, or type --ssh={}", ssh,
                       host, shell_word(ssh + " -o StrictHostKeyChecking=accept-new"));
  if (contains(words, "Permission denied")) {
    const std::string command = copy_id_command(ssh);
    return fmt::format(
        "; ddprun answers no questions for passwords: give your key to the host{}, and a key with "
        "a passphrase to ssh-agent",
        command.empty() ? "" : fmt::format(" ({} {})", command, host));
  }
  if (contains(words, "remote port forwarding failed"))
    return "; its sshd must allow AllowStreamLocalForwarding, which is the default";
  return "";
}

std::string behind(const std::string& words) { return words.empty() ? "" : ": " + words; }

}  // namespace

std::string last_words(std::string_view errors) {
  std::deque<std::string_view> lines;
  while (!errors.empty()) {
    const auto end = std::min(errors.find('\n'), errors.size());
    if (const auto line = trimmed(errors.substr(0, end)); !line.empty()) lines.push_back(line);
    errors.remove_prefix(std::min(end + 1, errors.size()));
    if (lines.size() > kWordsLinesMax) lines.pop_front();
  }
  std::string words;
  for (const std::string_view line : lines) {
    if (!words.empty()) words += words.ends_with('.') || words.ends_with(':') ? " " : "; ";
    words += line;
  }
  if (words.size() > kWordsBytesMax) words.resize(kWordsBytesMax);
  return words;
}

std::string why_not_started(const std::string& host, const std::string& ssh, const ExitStatus& exit,
                            const std::string& words, std::string_view banner) {
  if (exit.by_signal) return fmt::format("{}: ssh was {}{}", host, describe(exit), behind(words));
  if (exit.value == kExitOfSsh) {
    return fmt::format("{} cannot be reached{}{}", host,
                       words.empty() ? ": ssh gives no reason" : behind(words),
                       remedy_for(host, ssh, words));
  }
  if (exit.value == kExitNotFound) {
    return fmt::format(
        "{}: ddprun was not found there{}; install it there, or type --remote-path=PATH", host,
        behind(words));
  }
  if (exit.value == kExitNotExecutable) {
    return fmt::format("{}: ddprun cannot be executed there{}; type another --remote-path=PATH",
                       host, behind(words));
  }
  if (exit.value == kExitUsage && contains(words, "unknown option")) {
    return fmt::format(
        "{}: ddprun there is older than this one{}; install the same version there, or type "
        "--remote-path=PATH",
        host, behind(words));
  }
  const std::string shell = words.empty() ? last_words(banner) : words;
  return fmt::format(
      "{}: its login shell {} before ddprun answered{}; try {} {} true, which must succeed", host,
      describe(exit), behind(shell), ssh, host);
}

std::string why_refused(const std::string& host, std::string_view version,
                        std::string_view own_version) {
  return fmt::format(
      "{}: ddprun there has version {}, this one has {}; install the same version there, or type "
      "--remote-path=PATH",
      host, version, own_version);
}

std::string why_lost(const std::string& host, const ExitStatus& exit, const std::string& words) {
  if (exit.by_signal) return fmt::format("{} is lost: ssh was {}", host, describe(exit));
  if (exit.value == kExitOfSsh && words.empty()) {
    // At its log level ssh does not tell of a time that is over.
    return fmt::format(
        "{} is lost: its connection ended, and ssh tells no reason, as when nothing has come from "
        "there for {} s; look at the host and at the network",
        host, kAliveSeconds * kAliveTimes);
  }
  if (exit.value == kExitOfSsh)
    return fmt::format("{} is lost: its connection ended{}", host, behind(words));
  return fmt::format("{}: ddprun there {}", host, describe(exit));
}

}  // namespace ddprun::launcher
