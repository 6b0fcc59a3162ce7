// The hosts of --hosts and --hostfile. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options/launch_error.hpp"

namespace ddprun::launcher {

struct SshHost {
  std::string name;          ///< what ssh is given: a name, an address, user@host
  std::optional<int> slots;  ///< workers there, if --nproc-per-node is not given
};

inline constexpr std::size_t kSshHostsMax = 10'000;
inline constexpr int kSlotsMax = 65'536;

/// `a,b[1-4]:8,user@c`. `spelling` is for messages: "--hosts=a,b". Errors: no such list, a name
/// that ssh would take for an option, a host that is named twice.
LaunchResult<std::vector<SshHost>> hosts_in_list(std::string_view list, std::string_view spelling);

/// A host a line, as DeepSpeed and mpirun write it: `host`, `host slots=8`, `host:8`,
/// `host slots=8 max_slots=8`, with comments behind #. Names may have brackets, too. `spelling` as
/// above. Errors: likewise, with the line.
LaunchResult<std::vector<SshHost>> hosts_in_file(std::string_view text, std::string_view spelling);

}  // namespace ddprun::launcher
