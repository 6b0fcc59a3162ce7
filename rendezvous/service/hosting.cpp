#include "rendezvous/service/hosting.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>

#include <fmt/format.h>

#include "base/endpoint.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::rdzv {
namespace {

bool is_numeric(const std::string& host) {
  in6_addr addr;  // large enough for both families
  return inet_pton(AF_INET, host.c_str(), &addr) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &addr) == 1;
}

std::string any_addr_like(const std::string& addr) {
  return addr.find(':') == std::string::npos ? "0.0.0.0" : "::";
}

/// Calls `look` with the name and the numeric address of each interface, until it says true.
void each_interface(
    const std::function<bool(const std::string& name, const std::string& addr)>& look) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, &freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    socklen_t length = sizeof(sockaddr_in);
    if (one->ifa_addr->sa_family == AF_INET6) {
      const auto& addr = *reinterpret_cast<const sockaddr_in6*>(one->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&addr.sin6_addr)) continue;
      length = sizeof(sockaddr_in6);
    } else if (one->ifa_addr->sa_family != AF_INET) {
      continue;
    }
    std::array<char, NI_MAXHOST> host{};
    if (getnameinfo(one->ifa_addr, length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) !=
        0)
      continue;
    if (look(one->ifa_name, host.data())) return;
  }
}

/// On a node that does not have the endpoint's address.
std::string_view why_here(HostingWish wish) {
  if (wish == HostingWish::is_host) return "is_host=1 says so";
  if (wish == HostingWish::first_host) return "this is the job's first node";
  return "--node-rank=0 says so";
}

/// Sends nothing: the kernel looks up the route to an address that is reserved for documentation
/// (RFC 5737), as to any other far away. Empty: there is none.
std::string default_route_addr() {
  const UniqueFd probe(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in addr{};
  addr.sin_family = AF_INET;
  addr.sin_port = htons(9);
  addr.sin_addr.s_addr = htonl(0xC0000201);  // 192.0.2.1
  socklen_t length = sizeof addr;
  auto* const any = reinterpret_cast<sockaddr*>(&addr);
  char host[NI_MAXHOST] = "";
  if (!probe || connect(probe.get(), any, length) != 0 ||
      getsockname(probe.get(), any, &length) != 0 ||
      getnameinfo(any, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  return host;
}

}  // namespace

HostingChoice choose_host(HostingWish wish, const std::string& host,
                          const std::vector<std::string>& resolved,
                          const std::vector<std::string>& own) {
  HostingChoice choice;
  const auto is_own = [&own](const std::string& addr) {
    return is_loopback(addr) || std::find(own.begin(), own.end(), addr) != own.end();
  };
  const std::string shown =
      host == resolved.front() ? host : fmt::format("{} ({})", host, resolved.front());
  if (wish == HostingWish::not_host || wish == HostingWish::other_rank) {
    choice.why = wish == HostingWish::not_host ? "is_host=0 leaves it to another node"
                                               : "the node with node rank 0 does it";
    return choice;
  }
  if (wish == HostingWish::several_rdzvd) {
    choice.why = "--rdzv-endpoint names several rdzvd";
    return choice;
  }
  const auto found = std::find_if(resolved.begin(), resolved.end(), is_own);
  if (found == resolved.end() && wish == HostingWish::automatic) {
    choice.why = fmt::format("{} is not an address of this machine", shown);
    return choice;
  }
  choice.here = true;
  if (found == resolved.end()) {
    // Behind an address translation, say: connections to the endpoint arrive at one of ours.
    choice.is_foreign = true;
    choice.listen_addr = any_addr_like(resolved.front());
    choice.public_addr = host;
    choice.why = shown + " is not an address of this machine";
    choice.why = wish == HostingWish::rank0_by_default
                     ? fmt::format(
                           "no --node-rank is given, so this is node rank 0; but {}: give "
                           "the other machines --node-rank=1, 2, ...",
                           choice.why)
                     : fmt::format("{}, though {}", why_here(wish), choice.why);
  } else if (is_loopback(*found) && !is_numeric(host) && host != "localhost") {
    // Debian maps a machine's own name to 127.0.1.1; others see another address behind it.
    choice.listen_addr = any_addr_like(*found);
    choice.public_addr = host;
    choice.why = fmt::format("{} is this machine's own name", host);
  } else {
    choice.listen_addr = *found;
    choice.why = fmt::format("{} is an address of this machine",
                             host == *found ? host : fmt::format("{} ({})", host, *found));
  }
  return choice;
}

std::vector<std::string> interface_addresses() {
  std::vector<std::string> found;
  each_interface([&found](const std::string&, const std::string& addr) {
    found.push_back(addr);
    return false;
  });
  return found;
}

std::string interface_towards_others(const std::string& addr) {
  if (is_loopback(addr)) return "";
  const bool any = addr == "0.0.0.0" || addr == "::";
  const std::string wanted = any ? default_route_addr() : addr;
  std::string found;
  each_interface([&](const std::string& name, const std::string& own) {
    // A cluster of its own often has no default route.
    if (wanted.empty() ? is_loopback(own) : own != wanted) return false;
    found = name;
    return true;
  });
  return found;
}

}  // namespace ddprun::rdzv
