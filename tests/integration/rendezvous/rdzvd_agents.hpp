// Agents that are scripted, at a running rdzvd.
#pragma once

#include <string>

#include "tests/integration/rendezvous/running_rdzvd.hpp"
#include "tests/integration/rendezvous/service_agent.hpp"

namespace ddprun::test {

inline rdzv::ServicePlace place(const Rdzvd& rdzvd, const std::string& run_id,
                                const std::string& secret = "") {
  rdzv::ServicePlace place;
  place.host = rdzvd.host;
  place.port = rdzvd.port;
  place.run_id = run_id;
  place.secret = secret;
  return place;
}

}  // namespace ddprun::test
