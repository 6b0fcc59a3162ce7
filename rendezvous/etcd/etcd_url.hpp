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
/// The members speak TLS.
inline constexpr std::string_view kEncryptedEtcdScheme = "etcds://";

struct EtcdPlace {
  std::vector<Endpoint> members;  ///< each with its port; at least one
  std::string prefix;             ///< of all keys, without '/' at its ends
  bool is_encrypted = false;      ///< by its scheme
};

/// The error is why it is none, as the end of a message.
boost::system::result<EtcdPlace, std::string> parse_etcd_place(std::string_view text);

}  // namespace ddprun::rdzv
