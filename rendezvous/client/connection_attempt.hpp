// One try of a ServiceConnection, from the look-up of the name to the end of the connection.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/endpoint.hpp"
#include "rendezvous/client/service_connection.hpp"

namespace ddprun::rdzv {

struct ServiceConnection::Attempt {
  explicit Attempt(boost::asio::io_context& context) : socket(context) {}

  /// Without an answer to the first packet nothing is known of the other side.
  [[nodiscard]] std::string why_unreached() const {
    if (trying.empty()) return "no answer";
    return "no answer from " + to_string(Endpoint(trying, port)) +
           ": a firewall drops the packets, or the host is down; try nc -vz " + trying + " " +
           std::to_string(port);
  }
  /// A connect has failed. `proves_absence`: nothing listens there, if it was refused.
  void note_failure(int error, bool proves_absence) {
    // An address of a family that this machine does not have says nothing of the service.
    const bool no_way = error == EAFNOSUPPORT || error == ENETUNREACH || error == EADDRNOTAVAIL;
    if (error == ECONNREFUSED && proves_absence) refused = true;
    if (error != ECONNREFUSED && !no_way) unreachable = true;
  }
  [[nodiscard]] bool is_refused() const { return refused && !unreachable; }
  /// `error`: of the address that was tried last.
  [[nodiscard]] std::string why_failed(int error) const {
    if (rejected && error == EHOSTUNREACH) return "a firewall rejects connections";
    return std::strerror(is_refused() ? ECONNREFUSED : error);
  }

  boost::asio::posix::stream_descriptor socket;
  Addresses addresses{nullptr, &freeaddrinfo};
  struct Place {
    const addrinfo* addr = nullptr;
    std::uint16_t port = 0;
  };
  std::vector<Place> left;  // to try, the next one last
  std::uint16_t port = 0;   // of the one that is tried
  std::string trying;       // numeric
  sockaddr_storage addr{};  // the address that is tried
  socklen_t addr_length = 0;
  bool begun = false;        // the addresses are known
  bool refused = false;      // one of them did, and the others have no way there
  bool unreachable = false;  // one may be there, and is not reached
  bool rejected = false;     // by a firewall
  bool writing = false;
};

}  // namespace ddprun::rdzv
