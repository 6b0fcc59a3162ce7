#include "rendezvous/etcd/etcd_url.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "rendezvous/service/journal_format.hpp"

namespace ddprun::rdzv {
namespace {

constexpr std::string_view kDefaultPrefix = "ddprun";
constexpr std::size_t kPrefixBytesMax = 200;
constexpr std::size_t kMembersMax = 32;

bool is_printable(char c) { return c > ' ' && c <= '~'; }

}  // namespace

boost::system::result<std::string, std::string> parse_etcd_prefix(std::string_view text) {
  using Parsed = boost::system::result<std::string, std::string>;
  const auto failed = [](std::string why) {
    return Parsed(boost::system::in_place_error, std::move(why));
  };
  while (text.ends_with('/')) text.remove_suffix(1);
  while (text.starts_with('/')) text.remove_prefix(1);
  if (text.size() > kPrefixBytesMax)
    return failed(fmt::format("the prefix has more than {} bytes", kPrefixBytesMax));
  if (!std::all_of(text.begin(), text.end(), is_printable))
    return failed("the prefix has blanks or other characters than those of ASCII");
  return Parsed(boost::system::in_place_value, text.empty() ? kDefaultPrefix : text);
}

boost::system::result<EtcdPlace, std::string> parse_etcd_place(std::string_view text) {
  using Parsed = boost::system::result<EtcdPlace, std::string>;
  const auto failed = [](std::string why) {
    return Parsed(boost::system::in_place_error, std::move(why));
  };
  EtcdPlace place;
  place.is_encrypted = text.starts_with(kEncryptedEtcdScheme);
  if (!place.is_encrypted && !text.starts_with(kEtcdScheme))
    return failed("it does not begin with etcd:// or etcds://");
  text.remove_prefix(place.is_encrypted ? kEncryptedEtcdScheme.size() : kEtcdScheme.size());
  const std::size_t slash = text.find('/');
  auto prefix =
      parse_etcd_prefix(slash == std::string_view::npos ? std::string_view() : text.substr(slash));
  if (!prefix) return failed(prefix.error());
  place.prefix = std::move(*prefix);
  for (std::string_view rest = text.substr(0, slash);;) {
    const std::size_t comma = rest.find(',');
    auto member = parse_endpoint(rest.substr(0, comma));
    if (!member) return failed(member.error());
    if (!member->port) member->port = kEtcdPort;
    if (member->port == 0) return failed("port 0 cannot be asked");
    place.members.push_back(std::move(*member));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (place.members.size() > kMembersMax)
    return failed(fmt::format("it names more than {} members", kMembersMax));
  return Parsed(boost::system::in_place_value, std::move(place));
}

EtcdPlace etcd_place_of_run(EtcdPlace place, const std::string& run_id) {
  place.prefix += "/runs/" + escaped_run_id(run_id);
  return place;
}

bool sends_in_clear(const EtcdPlace& place) {
  return !place.is_encrypted &&
         !std::all_of(place.members.begin(), place.members.end(),
                      [](const Endpoint& member) { return leads_to_itself(member.host); });
}

std::string to_string(const EtcdPlace& place) {
  const std::string_view scheme = place.is_encrypted ? kEncryptedEtcdScheme : kEtcdScheme;
  std::string text(scheme);
  for (const Endpoint& member : place.members)
    text += (text.size() == scheme.size() ? "" : ",") + ddprun::to_string(member);
  return text + "/" + place.prefix;
}

}  // namespace ddprun::rdzv
