// The place of a journal in etcd as people write it: etcd://HOST:PORT,HOST:PORT/PREFIX,
// or etcds:// for TLS. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/system/result.hpp>

#include "base/endpoint.hpp"

namespace ddprun::rdzv {

inline constexpr std::string_view kEtcdScheme = "etcd://";
inline constexpr std::uint16_t kEtcdPort = 2379;
/// The members speak TLS.
inline constexpr std::string_view kEncryptedEtcdScheme = "etcds://";

struct EtcdPlace {
  std::vector<Endpoint> members;  ///< each with its port; at least one
  std::string prefix;             ///< of all keys, without '/' at its ends
  bool is_encrypted = false;      ///< by its scheme
};

/// A prefix as people write it, "/torchelastic/p2p" say; empty: the usual one. The error is why it
/// is none, as the end of a message.
boost::system::result<std::string, std::string> parse_etcd_prefix(std::string_view text);

/// The error is why it is none, as the end of a message.
boost::system::result<EtcdPlace, std::string> parse_etcd_place(std::string_view text);

/// The keys of one run whose agents have the service, below the prefix that people give.
EtcdPlace etcd_place_of_run(EtcdPlace place, const std::string& run_id);
/// What is sent to its members, a password say, can be read by others in the network.
bool sends_in_clear(const EtcdPlace& place);
/// As people write it.
std::string to_string(const EtcdPlace& place);

}  // namespace ddprun::rdzv
