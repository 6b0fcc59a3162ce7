#include "rendezvous/client/resolve.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

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

/// One look-up on a thread of the C library.
struct Lookup {
  std::string host;
  std::string port;
  addrinfo hints{};
  gaicb request{};
};

/// Look-ups that were not done at their deadline. The C library still writes to them, so they stay
/// until they are done; the list itself is never destroyed, for that may be after `main`.
class GivenUp {
 public:
  static GivenUp& list() {
    static GivenUp& only = *std::make_unique<GivenUp>().release();
    return only;
  }
  void add(std::unique_ptr<Lookup> lookup) {
    const std::lock_guard lock(mutex_);
    std::erase_if(lookups_, [](const std::unique_ptr<Lookup>& old) {
      if (gai_error(&old->request) == EAI_INPROGRESS) return false;
      if (old->request.ar_result != nullptr) freeaddrinfo(old->request.ar_result);
      return true;
    });
    lookups_.push_back(std::move(lookup));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lookup>> lookups_;
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
      if (gai_cancel(request) == EAI_NOTCANCELED) {
        GivenUp::list().add(std::move(lookup));
      } else if (request->ar_result != nullptr) {
        freeaddrinfo(request->ar_result);  // it was done at this very moment
      }
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
