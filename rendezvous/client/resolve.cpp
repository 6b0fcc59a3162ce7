#include "rendezvous/client/resolve.hpp"

#include <cerrno>
#include <utility>

#include "proto/error.hpp"

namespace ddprun::rdzv {
namespace {

class Category final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "getaddrinfo"; }
  std::string message(int code) const override { return gai_strerror(code); }
};

ErrorCode lookup_error(int code) {
  static const Category category;
  if (code == EAI_SYSTEM) return {errno, boost::system::system_category()};
  return {code, category};
}

/// One look-up on a thread of the C library. That thread may still write here after the deadline,
/// so in that case the memory is given up: a few hundred bytes for each look-up that never ends.
struct Lookup {
  std::string host;
  std::string port;
  addrinfo hints{};
  gaicb request{};
};

timespec until(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::max(deadline - std::chrono::steady_clock::now(),
                             std::chrono::steady_clock::duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {seconds.count(), std::chrono::nanoseconds(left - seconds).count()};
}

}  // namespace

Result<Addresses> resolve(const std::string& host, std::uint16_t port,
                          std::chrono::steady_clock::time_point deadline) {
  auto lookup = std::make_unique<Lookup>();
  lookup->host = host;
  lookup->port = std::to_string(port);
  lookup->hints.ai_socktype = SOCK_STREAM;
  lookup->hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;

  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), lookup->port.c_str(), &lookup->hints, &found) == 0) {
    return Addresses(found, &freeaddrinfo);
  }

  lookup->hints.ai_flags = AI_NUMERICSERV;
  lookup->request.ar_name = lookup->host.c_str();
  lookup->request.ar_service = lookup->port.c_str();
  lookup->request.ar_request = &lookup->hints;
  gaicb* request = &lookup->request;
  if (const int failed = getaddrinfo_a(GAI_NOWAIT, &request, 1, nullptr))
    return lookup_error(failed);
  int state = gai_error(request);
  while (state == EAI_INPROGRESS) {
    const timespec left = until(deadline);
    if (left.tv_sec == 0 && left.tv_nsec == 0) {
      if (gai_cancel(request) == EAI_NOTCANCELED) [[maybe_unused]]
        Lookup* const given_up = lookup.release();
      return make_error_code(proto::Errc::timed_out);
    }
    const gaicb* const waited = request;
    gai_suspend(&waited, 1, &left);
    state = gai_error(request);
  }
  if (state != 0) return lookup_error(state);
  return Addresses(request->ar_result, &freeaddrinfo);
}

}  // namespace ddprun::rdzv
