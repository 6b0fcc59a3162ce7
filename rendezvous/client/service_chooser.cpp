#include "rendezvous/client/service_chooser.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "rendezvous/client/service_refusal.hpp"

namespace ddprun::rdzv {

ServiceChooser::ServiceChooser(Settings settings)
    : follows_standby_(settings.follows_standby),
      has_finder_(settings.has_finder),
      hosts_(settings.first, std::move(settings.more_hosts)),
      ports_{*settings.first.port} {
  ports_.insert(ports_.end(), settings.more_ports.begin(), settings.more_ports.end());
}

void ServiceChooser::begin_attempt() {
  ++attempts_;
  refusal_.clear();
}

void ServiceChooser::lead_to(const Endpoint& place) {
  hosts_ = ServiceHosts(place, {});
  ports_ = {*place.port};
  hosts_.begin();
}

const std::vector<std::uint16_t>& ServiceChooser::ports() {
  if (are_several()) ports_ = {*host().port};
  return ports_;
}

/// Another program has the port, or the service of another job.
void ServiceChooser::try_port_last(std::uint16_t port) {
  const auto found = std::find(ports_.begin(), ports_.end(), port);
  if (found != ports_.end()) std::rotate(found, found + 1, ports_.end());
}

ServiceChooser::Next ServiceChooser::refuse(const proto::Refused& refused, std::uint16_t port) {
  if (refused.why == proto::Refused::Why::elsewhere && follows_standby_) {
    hosts_.prefer(refused.place);
    hosts_.go_on();
    return Next::fails;
  }
  if (!is_of_another_job(refused)) return Next::counts;
  if (may_be_at_other_port()) {
    try_port_last(port);
    return Next::fails;
  }
  // The place of a service that was killed is named for some seconds more, and another job's may
  // have its port by then.
  if (has_finder_ && !is_welcomed_) return Next::fails;
  // One of them may have an old certificate or secret: only all of them can refuse a node.
  if (!are_several() || hosts_.refuse()) return Next::counts;
  refusal_ = fmt::format("{}: {}", to_string(host()), refused.reason);
  return Next::next_host;
}

ServiceChooser::Next ServiceChooser::meet_stranger(std::uint16_t port) {
  if (may_be_at_other_port()) {
    try_port_last(port);
    return Next::fails;
  }
  return has_next() ? Next::next_host : Next::counts;
}

bool ServiceChooser::welcome(const proto::Welcome& welcome, const std::string& addr,
                             std::uint16_t port) {
  if (may_be_at_other_port() && !welcome.in_agent) {
    try_port_last(port);
    return false;
  }
  is_welcomed_ = true;
  refusal_.clear();
  welcomed_from_ = addr;
  if (port != 0) ports_ = {port};
  return true;
}

}  // namespace ddprun::rdzv
