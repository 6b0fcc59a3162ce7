// One try of a ServiceConnection, from the look-up of the name to the end of the connection.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "rendezvous/client/service_connection.hpp"

namespace ddprun::rdzv {

struct ServiceConnection::Attempt {
  explicit Attempt(boost::asio::io_context& context) : socket(context) {}

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
