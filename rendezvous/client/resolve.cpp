#include "rendezvous/client/resolve.hpp"

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/start_thread.hpp"
#include "proto/error.hpp"

namespace ddprun::rdzv {
namespace {

class Category final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "getaddrinfo"; }
  std::string message(int code) const override { return gai_strerror(code); }
};

/// What getaddrinfo said.
struct Answer {
  int code = 0;
  int system_error = 0;  ///< where the code is EAI_SYSTEM
  Addresses addresses{nullptr, &freeaddrinfo};
};

Answer ask(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  Answer answer;
  answer.code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  answer.system_error = errno;
  if (answer.code == 0) answer.addresses.reset(found);
  return answer;
}

Result<Addresses> result_of(Answer answer) {
  static const Category category;
  if (answer.code == 0) return std::move(answer.addresses);
  if (answer.code == EAI_SYSTEM) {
    return ErrorCode(answer.system_error, boost::system::system_category());
  }
  return ErrorCode(answer.code, category);
}

/// A look-up can be neither interrupted nor given a deadline, so its thread is left alone: it ends
/// with the resolver's own time-outs. Gives the error where no thread can be started.
ErrorCode look_up(const std::string& host, std::uint16_t port, std::function<void(Answer)> done) {
  auto thread =
      start_thread("resolver", [host, port, done = std::move(done)] { done(ask(host, port, 0)); });
  if (!thread) return thread.error();
  thread->detach();
  return {};
}

/// What the look-up's thread shares with the one that waits.
struct Lookup {
  std::mutex mutex;
  std::condition_variable answered;
  bool done = false;
  Answer answer;
};

}  // namespace

std::string numeric_host(const addrinfo& addr) {
  char host[NI_MAXHOST] = "";
  const int failed =
      getnameinfo(addr.ai_addr, addr.ai_addrlen, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? host : "";
}

Result<Addresses> resolve(const std::string& host, std::uint16_t port,
                          std::chrono::steady_clock::time_point deadline) {
  // Numeric addresses, the usual case, need no resolver.
  if (Answer numeric = ask(host, port, AI_NUMERICHOST); numeric.code == 0) {
    return result_of(std::move(numeric));
  }
  if (deadline <= std::chrono::steady_clock::now()) return make_error_code(proto::Errc::timed_out);
  const auto lookup = std::make_shared<Lookup>();
  if (const ErrorCode failed = look_up(host, port, [lookup](Answer answer) {
        const std::lock_guard lock(lookup->mutex);
        lookup->answer = std::move(answer);
        lookup->done = true;
        lookup->answered.notify_one();
      }))
    return failed;
  std::unique_lock lock(lookup->mutex);
  if (!lookup->answered.wait_until(lock, deadline, [&] { return lookup->done; })) {
    return make_error_code(proto::Errc::timed_out);
  }
  return result_of(std::move(lookup->answer));
}

ErrorCode resolve_then(const std::string& host, std::uint16_t port,
                       std::function<void(Result<Addresses>)> done) {
  if (Answer numeric = ask(host, port, AI_NUMERICHOST); numeric.code == 0) {
    done(result_of(std::move(numeric)));
    return {};
  }
  return look_up(host, port,
                 [done = std::move(done)](Answer answer) { done(result_of(std::move(answer))); });
}

}  // namespace ddprun::rdzv
