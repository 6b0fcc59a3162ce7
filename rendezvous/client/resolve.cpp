#include "rendezvous/client/resolve.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/start_thread.hpp"
#include "proto/error.hpp"

namespace ddprun::rdzv {
namespace {

/// What the look-up's thread shares with the one that waits.
struct Lookup {
  std::mutex mutex;
  std::condition_variable answered;
  std::optional<Result<Addresses>> found;
};

}  // namespace

Result<Addresses> resolve(const std::string& host, std::uint16_t port,
                          std::chrono::steady_clock::time_point deadline) {
  // Numeric addresses, the usual case, need no resolver.
  if (auto numeric = numeric_addresses(host, port)) return numeric;
  if (deadline <= std::chrono::steady_clock::now()) return make_error_code(proto::Errc::timed_out);
  const auto lookup = std::make_shared<Lookup>();
  if (const ErrorCode failed = resolve_then(host, port, [lookup](Result<Addresses> found) {
        const std::lock_guard lock(lookup->mutex);
        lookup->found = std::move(found);
        lookup->answered.notify_one();
      }))
    return failed;
  std::unique_lock lock(lookup->mutex);
  if (!lookup->answered.wait_until(lock, deadline, [&] { return lookup->found.has_value(); })) {
    return make_error_code(proto::Errc::timed_out);
  }
  return std::move(*lookup->found);
}

ErrorCode resolve_then(const std::string& host, std::uint16_t port,
                       std::function<void(Result<Addresses>)> done) {
  if (auto numeric = numeric_addresses(host, port)) {
    done(std::move(numeric));
    return {};
  }
  // A look-up can be neither interrupted nor given a deadline, so its thread is left alone: it ends
  // with the resolver's own time-outs.
  auto thread = start_thread(
      "resolver", [host, port, done = std::move(done)] { done(look_up_addresses(host, port)); });
  if (!thread) return thread.error();
  thread->detach();
  return {};
}

}  // namespace ddprun::rdzv
