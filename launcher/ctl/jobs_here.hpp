// The sockets of jobs on this machine, and which of them is meant.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include <boost/system/result.hpp>

namespace ddprun::ctl {

struct JobSocketName {
  std::string address;  ///< with '@' for the leading NUL
  uid_t user = 0;
  /// The first 64 bytes of the run id; with a pid behind it where two jobs have the same. Of
  /// another user: with UID/ before it.
  std::string job;
};

/// Those in /proc/net/unix that listen. `user`: only of this one; root: of all. Pure.
std::vector<JobSocketName> jobs_in(std::string_view proc_net_unix, uid_t user);

struct NoJob {
  bool is_ambiguous = false;  ///< several fit
  std::string text;           ///< what there is
};
using ChosenJob = boost::system::result<JobSocketName, NoJob>;

/// The one that `job` names: by its whole name, else by its beginning. Empty: the one of
/// `own_address`, that of a worker in which we run (empty: none), else the only one. Pure.
ChosenJob chosen_job(const std::vector<JobSocketName>& jobs, const std::string& job,
                     const std::string& own_address);

}  // namespace ddprun::ctl
