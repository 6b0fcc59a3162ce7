#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.hpp"
#include "base/duration.hpp"
#include "base/endpoint.hpp"
#include "launcher/cluster/hostlist.hpp"
#include "launcher/options/environment.hpp"
#include "launcher/options/option_table.hpp"
#include "launcher/options/options.hpp"
#include "launcher/options/parser.hpp"
#include "launcher/options/rdzv_conf.hpp"
#include "launcher/ssh/hosts.hpp"
#include "launcher/ssh/node_messages.hpp"
#include "launcher/ssh/node_output.hpp"
#include "launcher/ssh/ssh_command.hpp"
#include "tests/fuzz/entries.hpp"
#include "tests/fuzz/error_line.hpp"

namespace ddprun::test {
namespace {

using namespace launcher;

void check_error(const LaunchError& error) {
  DDPRUN_ASSERT(error.exit_code == kExitUsage, "a wrong command line starts nothing");
  DDPRUN_ASSERT(!error.message.empty() && error.message.back() != '\n', "an error has words");
}

}  // namespace

void fuzz_rdzv_conf(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto conf = parse_rdzv_conf(text);
  if (conf) {
    std::set<std::string_view> keys;
    for (const auto& setting : conf->settings) {
      DDPRUN_ASSERT(!setting.key.empty() && !setting.value.empty(), "settings are whole");
      DDPRUN_ASSERT(keys.insert(setting.key).second, "each key is there once");
      DDPRUN_ASSERT(conf->value(setting.key) == setting.value, "what is there is found");
    }
    DDPRUN_ASSERT(conf->settings.size() <=
                      static_cast<std::size_t>(std::count(text.begin(), text.end(), ',')) + 1,
                  "no setting comes from nowhere");
    const auto times = rdzv_times(*conf);
    if (!times) check_error(times.error());
    DDPRUN_ASSERT(
        !times || (times->lease >= std::chrono::seconds(1) &&
                   times->lease <= std::chrono::hours(1) && times->lease <= times->lost_timeout),
        "times fit together");
  } else {
    check_error(conf.error());
  }
  const auto endpoint = parse_endpoint(text);
  if (endpoint) {
    DDPRUN_ASSERT(!endpoint->host.empty(), "an endpoint has a host");
  } else {
    DDPRUN_ASSERT(!endpoint.error().empty(), "an error has words");
  }
  const auto duration = parse_duration(text);
  DDPRUN_ASSERT(!duration || duration->count() >= 0, "no duration is negative");
}

void fuzz_hostlist(const std::uint8_t* data, std::size_t size) {
  const auto list = Hostlist::parse({reinterpret_cast<const char*>(data), size});
  if (!list) return check_error_line(list.error());
  DDPRUN_ASSERT(list->size() >= 1 && list->size() <= Hostlist::kHostsMax, "a list has hosts");
  for (const std::uint64_t place : {std::uint64_t{0}, list->size() / 2, list->size() - 1}) {
    const std::string name = list->name(place);
    DDPRUN_ASSERT(!name.empty() && name.size() <= Hostlist::kNameBytesMax, "a host has a name");
    DDPRUN_ASSERT(name.find_first_of("[], \t\n") == std::string::npos, "a name is one host's");
  }
}

void fuzz_command_line(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> words;
  Environment environment;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    const std::string word(text.substr(begin, end - begin));
    const std::size_t equals = word.find('=');
    if (word.starts_with("PET_") && equals != std::string::npos) {
      environment[word.substr(0, equals)] = word.substr(equals + 1);
    } else {
      words.push_back(word);
    }
    begin = end + 1;
  }

  const auto parsed = parse_command_line(option_table(), words, environment);
  if (!parsed) return check_error(parsed.error());
  const auto& behind = parsed->arguments;
  DDPRUN_ASSERT(
      behind.size() <= words.size() && std::equal(behind.rbegin(), behind.rend(), words.rbegin()),
      "what stands behind PROGRAM is handed on as it is");
  if (parsed->program) {
    DDPRUN_ASSERT(std::find(words.begin(), words.end(), *parsed->program) != words.end(),
                  "PROGRAM is a word of the command line");
  }
  const auto options = launch_options(*parsed, environment);
  if (!options) check_error(options.error());
}

void fuzz_node_messages(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto plan = decode_plan(text);
  if (plan) {
    const std::string again = encode(*plan);
    const auto newline = again.find('\n');
    DDPRUN_ASSERT(plan_bytes(again.substr(0, newline)) == again.size() - newline - 1,
                  "a plan tells its length");
    const auto read = decode_plan(std::string_view(again).substr(newline + 1));
    DDPRUN_ASSERT(read && encode(*read) == again, "a plan is read as it was written");
  } else {
    DDPRUN_ASSERT(!plan.error().empty(), "an error has words");
  }
  // Bytes that come in one piece or in many make the lines that they make.
  const auto all_of = [&](std::size_t step) {
    NodeOutput output("m");
    std::string lines;
    std::string rest;
    for (std::size_t at = 0; at < text.size(); at += step) {
      auto taken = output.add(text.substr(at, step));
      lines += taken.lines;
      if (!taken.problem.empty() || taken.end) return lines;
    }
    return lines + output.rest();
  };
  const std::string whole = all_of(text.size() + 1);
  const std::string pieces = all_of(1 + data[0] % 7U);
  DDPRUN_ASSERT(whole.starts_with(pieces) || pieces.starts_with(whole),
                "lines are whole and in order");
}

void fuzz_hostfile(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& hosts : {hosts_in_file(text, "--hostfile=f"), hosts_in_list(text, "--hosts")}) {
    if (!hosts) {
      check_error(hosts.error());
      continue;
    }
    DDPRUN_ASSERT(!hosts->empty() && hosts->size() <= kSshHostsMax, "there are hosts");
    std::set<std::string> names;
    for (const SshHost& host : *hosts) {
      DDPRUN_ASSERT(!host.name.empty() && host.name.front() != '-', "no host is an option of ssh");
      DDPRUN_ASSERT(names.insert(host.name).second, "each host is there once");
    }
  }
  const auto words = words_of_command(text, "--ssh");
  if (words) {
    DDPRUN_ASSERT(!words->empty() && !words->front().empty(), "a command has a program");
  } else {
    check_error(words.error());
  }
}

}  // namespace ddprun::test
