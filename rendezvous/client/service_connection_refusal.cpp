// An attempt of ServiceConnection that is refused, by the service or by this end: whether another
// place may do better.
#include <fmt/format.h>

#include "rendezvous/client/connection_attempt.hpp"
#include "rendezvous/client/service_connection.hpp"
#include "rendezvous/client/service_refusal.hpp"

namespace ddprun::rdzv {

/// True: the attempt goes on elsewhere, or has failed as others do. False: the refusal counts.
bool ServiceConnection::goes_on_after(const proto::Refused& refused) {
  if (!is_of_another_job(refused)) return false;
  if (may_be_at_other_port()) {
    try_port_last();
    fail(false, refused.reason);
    return true;
  }
  // The place of a service that was killed is named for some seconds more, and another job's may
  // have its port by then.
  if (place_.finder != nullptr && !welcomed_) {
    fail(false, refused.reason);
    return true;
  }
  // One of them may have an old certificate or secret: only all of them can refuse a node.
  if (!hosts_.are_several() || hosts_.refuse()) return false;
  refusal_ = fmt::format("{}: {}", to_string(hosts_.current()), refused.reason);
  next_host(refused.reason);
  return true;
}

}  // namespace ddprun::rdzv
