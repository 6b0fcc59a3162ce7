#include "agent/preload/worker_packet.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::agent {
namespace {

void add(std::string& text, std::string_view field) {
  text += '\0';
  text += field;
}

}  // namespace

std::vector<std::string> words_without_program(const std::vector<std::string>& argv) {
  std::vector<std::string> words{argv.front()};
  bool ends = false;
  for (std::size_t i = 1; i < argv.size() && !ends; ++i) {
    const std::string& word = argv[i];
    const bool is_long = word == "--check-hash-based-pycs";
    if (!is_long && (word.size() < 2 || word[0] != '-' || word[1] == '-')) break;
    const std::size_t at = is_long ? std::string::npos : word.find_first_of("cmWX", 1);
    ends = at != std::string::npos && (word[at] == 'c' || word[at] == 'm');
    if (ends && at == 1) break;
    words.push_back(ends ? word.substr(0, at) : word);
    const bool value_is_next = is_long || (!ends && at + 1 == word.size());
    if (value_is_next && i + 1 < argv.size()) words.push_back(argv[++i]);
  }
  words.insert(words.end(), {"-c", ""});
  return words;
}

std::string import_text(const std::vector<std::string>& argv,
                        const std::vector<std::string>& modules) {
  std::string text = std::to_string(argv.size());
  for (const std::string& word : argv) add(text, word);
  for (const std::string& module : modules) add(text, module);
  return text;
}

std::string worker_text(const machine::SpawnRequest& request, pid_t parent) {
  std::string text = std::to_string(parent);
  std::string cpus;
  for (const int cpu : request.cpus) cpus += (cpus.empty() ? "" : ",") + std::to_string(cpu);
  add(text, cpus);
  add(text, std::to_string(request.argv.size()));
  for (const std::string& word : request.argv) add(text, word);
  for (const std::string& variable : request.environment) add(text, variable);
  return text;
}

/// A word, and behind `ready` and `failed` what there is more and a text, with NULs between.
ImporterAnswer parse_answer(std::string_view packet) {
  const auto take = [&packet] {
    const std::string_view field = packet.substr(0, packet.find('\0'));
    packet.remove_prefix(std::min(field.size() + 1, packet.size()));
    return field;
  };
  if (packet.empty()) return {};
  const std::string_view word = take();
  std::string more(take());
  if (word == "ready") return {true, std::string(packet), std::move(more)};
  if (word == "failed" && !packet.empty()) return {false, std::string(packet), std::move(more)};
  return {false, "it answered what ddprun does not understand", ""};
}

}  // namespace ddprun::agent
