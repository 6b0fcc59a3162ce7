#include "launcher/ssh/hosts.hpp"

#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/number_in.hpp"
#include "base/printable.hpp"
#include "base/trimmed.hpp"
#include "launcher/cluster/hostlist.hpp"

namespace ddprun::launcher {
namespace {

using Hosts = std::vector<SshHost>;

/// The commas that are not within brackets.
std::vector<std::string_view> entries_of(std::string_view list) {
  std::vector<std::string_view> entries;
  std::size_t begin = 0;
  bool in_bracket = false;
  for (std::size_t at = 0; at <= list.size(); ++at) {
    const char c = at < list.size() ? list[at] : ',';
    if (c == '[') in_bracket = true;
    if (c == ']') in_bracket = false;
    if (at < list.size() && (c != ',' || in_bracket)) continue;
    if (const auto entry = trimmed(list.substr(begin, at - begin)); !entry.empty())
      entries.push_back(entry);
    begin = at + 1;
  }
  return entries;
}

/// What a host that is named again means.
enum class Repeated {
  mistake,
  one_more_worker,  ///< as in the node files of PBS and LSF, which name a host once for each slot
};

/// Reads entries one by one; the first thing that is wrong ends it.
class HostsReader {
 public:
  HostsReader(std::string_view spelling, Repeated repeated)
      : spelling_(spelling), repeated_(repeated) {}

  /// `where` is for messages: "line 3: ", or empty.
  LaunchResult<void> add(std::string_view entry, std::optional<int> slots,
                         const std::string& where) {
    // Several colons are an IPv6 address.
    const auto colon = entry.find(':');
    if (colon != std::string_view::npos && entry.find(':', colon + 1) == std::string_view::npos) {
      const auto number = slots_in(entry.substr(colon + 1));
      if (!number)
        return wrong(where, fmt::format("{}: expected the number of workers, 1 or more, behind the "
                                        "colon, as in host:8; a port of ssh belongs into its "
                                        "configuration",
                                        entry));
      slots = slots.value_or(*number);
      entry = entry.substr(0, colon);
    }
    const auto names = Hostlist::parse(entry);
    if (!names) return wrong(where, fmt::format("{}: {}", entry, names.error()));
    if (names->size() > kSshHostsMax - hosts_.size())
      return wrong(where, fmt::format("more than {} hosts", kSshHostsMax));
    for (std::uint64_t place = 0; place < names->size(); ++place) {
      std::string name = names->name(place);
      if (name.starts_with('-'))
        return wrong(where, name + ": a host's name does not begin with a dash");
      const auto [known, is_new] = places_.try_emplace(name, hosts_.size());
      if (is_new) {
        hosts_.push_back({std::move(name), slots});
        named_.push_back(slots.value_or(1));
        continue;
      }
      if (repeated_ == Repeated::mistake) {
        return wrong(where, name +
                                ": the host is named twice; name each one once, and set its number "
                                "of workers with --nproc-per-node");
      }
      counts_names_ = true;
      int& workers = named_[known->second];
      workers += slots.value_or(1);
      if (workers > kSlotsMax)
        return wrong(where, fmt::format("{}: more than {} workers", name, kSlotsMax));
      if (slots) hosts_[known->second].slots = slots;
    }
    return {};
  }

  LaunchResult<Hosts> take(std::string_view example) {
    if (hosts_.empty()) return wrong("", fmt::format("it names no host; {}", example));
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (counts_names_ || hosts_[i].slots) hosts_[i].slots = named_[i];
    }
    return std::move(hosts_);
  }

  [[nodiscard]] LaunchError wrong(const std::string& where, std::string_view why) const {
    return usage_error(fmt::format("{}: {}{}", spelling_, where, why));
  }

  static std::optional<int> slots_in(std::string_view text) {
    const auto number = number_in<int>(text);
    return number && *number >= 1 && *number <= kSlotsMax ? number : std::nullopt;
  }

 private:
  const std::string_view spelling_;
  const Repeated repeated_;
  Hosts hosts_;
  std::vector<int> named_;  // workers of each host by the names and slots so far
  std::unordered_map<std::string, std::size_t> places_;
  bool counts_names_ = false;
};

std::vector<std::string_view> words_in(std::string_view line) {
  std::vector<std::string_view> words;
  for (line = trimmed(line); !line.empty(); line = trimmed(line)) {
    const auto end = std::min(line.find_first_of(" \t\r\f\v"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

/// The slots that stand behind a host's name; none: the line has no number of them.
LaunchResult<std::optional<int>> slots_of_line(const std::vector<std::string_view>& words,
                                               const HostsReader& reader,
                                               const std::string& where) {
  std::optional<int> slots;
  std::size_t next = 1;
  if (words.size() > 1 && (slots = HostsReader::slots_in(words[1]))) {
    // SGE: HOST SLOTS QUEUE@HOST PROCESSORS.
    if (words.size() == 4 || (words.size() == 3 && words[2].find('@') != std::string_view::npos))
      return slots;
    next = 2;
  }
  for (std::size_t i = next; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    const std::string_view key = words[i].substr(0, equals);
    const auto value = equals == std::string_view::npos
                           ? std::nullopt
                           : HostsReader::slots_in(words[i].substr(equals + 1));
    if ((key != "slots" && key != "max_slots" && key != "max-slots") || !value)
      return reader.wrong(where, fmt::format("{}: expected a number of workers, slots=N or "
                                             "max_slots=N, 1 or more, behind the name, as in: "
                                             "host slots=8",
                                             words[i]));
    if (key == "slots") slots = value;
  }
  return slots;
}

}  // namespace

LaunchResult<Hosts> hosts_in_list(std::string_view list, std::string_view spelling) {
  HostsReader reader(spelling, Repeated::mistake);
  if (list.size() > Hostlist::kBytesMax) return reader.wrong("", "the list is too long");
  for (const std::string_view entry : entries_of(list)) {
    if (const auto added = reader.add(entry, std::nullopt, ""); !added) return added.error();
  }
  return reader.take("give names as in --hosts=a,b[1-4]");
}

LaunchResult<Hosts> hosts_in_file(std::string_view text, std::string_view spelling) {
  HostsReader reader(spelling, Repeated::one_more_worker);
  text = without_byte_order_mark(text);
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto words = words_in(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    const std::string where = fmt::format("line {}: ", number);
    const auto slots = slots_of_line(words, reader, where);
    if (!slots) return slots.error();
    if (const auto added = reader.add(words.front(), *slots, where); !added) return added.error();
  }
  return reader.take("write one name on each line");
}

}  // namespace ddprun::launcher
