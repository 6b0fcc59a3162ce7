// The secret of a rendezvous service in this agent.
#pragma once

#include <string>

#include <boost/system/result.hpp>

#include "agent/config.hpp"

namespace ddprun::agent {

struct OwnSecret {
  std::string secret;      ///< empty: none
  std::string credential;  ///< shows it to nodes of this user; empty: it is not shown
};

/// The job's, or a new one where the service is to make one and can. May block for some seconds.
/// The error is why there is none, though there must be.
boost::system::result<OwnSecret, std::string> own_secret(const RendezvousSettings& settings);

}  // namespace ddprun::agent
