#include "base/addresses.hpp"

#include <arpa/inet.h>

#include <cerrno>

namespace ddprun {
namespace {

class Category final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "getaddrinfo"; }
  std::string message(int code) const override { return gai_strerror(code); }
};

Result<Addresses> ask(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code == EAI_SYSTEM) return last_system_error();
  if (code != 0) return ErrorCode(code, resolver_category());
  return Addresses(found, &freeaddrinfo);
}

}  // namespace

Result<Addresses> look_up_addresses(const std::string& host, std::uint16_t port) {
  return ask(host, port, 0);
}

Result<Addresses> numeric_addresses(const std::string& host, std::uint16_t port) {
  return ask(host, port, AI_NUMERICHOST);
}

const boost::system::error_category& resolver_category() {
  static const Category category;
  return category;
}

bool is_numeric_address(const std::string& host) {
  in6_addr addr;  // large enough for both families
  return inet_pton(AF_INET, host.c_str(), &addr) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &addr) == 1;
}

std::string numeric_host(const sockaddr* addr, socklen_t length) {
  char host[NI_MAXHOST] = "";
  const int failed = getnameinfo(addr, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? host : "";
}

}  // namespace ddprun
