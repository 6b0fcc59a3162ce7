// An attempt of ServiceConnection that begins with the question where the service is.
#include <utility>

#include "rendezvous/client/connection_attempt.hpp"
#include "rendezvous/client/service_connection.hpp"

namespace ddprun::rdzv {

void ServiceConnection::ask_finder() {
  place_.finder->find([this, is = std::weak_ptr(attempt_)](const FoundService& found) {
    if (is.expired()) return;
    if (is_cut_) return static_cast<void>(connects_at_heal_ = true);
    if (!found.place) {
      if (found.is_hopeless && !welcomed_)
        events_.said(proto::Refused{proto::Refused::Why::broken, found.reason});
      if (!is.expired()) fail(false, found.reason);
      return;
    }
    hosts_ = ServiceHosts(*found.place, {});
    ports_ = {*found.place->port};
    hosts_.begin();
    try_host();
  });
}

}  // namespace ddprun::rdzv
