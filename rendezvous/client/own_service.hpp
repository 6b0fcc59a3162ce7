// The rendezvous service in the process of one of its agents.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::rdzv {

/// Used on one thread.
class OwnService {
 public:
  OwnService() = default;
  virtual ~OwnService() = default;
  OwnService(const OwnService&) = delete;
  OwnService& operator=(const OwnService&) = delete;

  /// The service's name leads to these numeric addresses now, at least one: if one of them is this
  /// machine's, and nothing serves there, the service is here from now on. Asked at each attempt to
  /// reach the service, until it has welcomed this agent: a name may move, and a port become free.
  virtual void look(const std::vector<std::string>& addresses) = 0;
  [[nodiscard]] virtual bool is_here() const = 0;
  /// To it, without a network. Requires is_here(). Errors: the system's.
  virtual Result<UniqueFd> connect() = 0;
  /// The program that has the service's port on this machine, where the service might have been
  /// here. Empty: none, or it is not known.
  [[nodiscard]] virtual std::string port_user() const = 0;
  /// For people: why the service is not here, by the last `look`. Empty: it is, or none was asked.
  [[nodiscard]] virtual std::string why_elsewhere() const = 0;
};

}  // namespace ddprun::rdzv
