// Which agent of a job has the rendezvous service: the one on the machine that owns the endpoint's
// address.
#pragma once

#include <string>
#include <vector>

namespace ddprun::rdzv {

enum class HostingWish {
  automatic,         ///< the first agent on the machine that has the endpoint's address
  is_host,           ///< is_host=1: this one, whatever the endpoint's address looks like from here
  rank0,             ///< --node-rank=0: likewise
  rank0_by_default,  ///< no --node-rank in a static job, so 0: likewise
  not_host,          ///< is_host=0: another one, or rdzvd
  several_rdzvd,     ///< the endpoint names several, and none of them is an agent
  first_host,        ///< the scheduler says that this is the job's first node: likewise
  other_rank,        ///< another node rank than 0: the one with node rank 0
};

struct HostingChoice {
  bool here = false;
  bool is_foreign = false;  ///< here, though the address looks like another machine's
  std::string listen_addr;  ///< numeric; empty: it is not here
  /// What other nodes may call this machine; empty: the address by which they are reached.
  std::string public_addr;
  std::string why;  ///< for people: "10.0.0.1 is an address of this machine"
};

/// Pure. `host` is the endpoint's as the user wrote it, `resolved` its numeric addresses as this
/// machine sees them, at least one; `own` those of this machine's interfaces.
HostingChoice choose_host(HostingWish wish, const std::string& host,
                          const std::vector<std::string>& resolved,
                          const std::vector<std::string>& own);

/// The numeric addresses of this machine's interfaces that are up; link-local IPv6 ones left out.
std::vector<std::string> interface_addresses();
/// The name of the interface by which other machines are reached: the one with `addr`, or where
/// that is a wildcard the one of the default route, else the first. Empty: none is, or `addr` is a
/// loopback address.
std::string interface_towards_others(const std::string& addr);

}  // namespace ddprun::rdzv
