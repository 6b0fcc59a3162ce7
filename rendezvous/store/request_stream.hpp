// The input side of one connection: bytes in whatever pieces they come, whole requests out.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "proto/c10d.hpp"

namespace ddprun::rdzv {

/// Owns no memory beyond itself except while a request is incomplete or could not be served yet.
class RequestStream {
 public:
  RequestStream() = default;
  explicit RequestStream(bool accept_old_dialect) : parser_(accept_old_dialect) {}

  enum class State {
    hungry,   ///< everything was served that came whole
    stopped,  ///< `serve` asked to stop; call `take` again to go on
    refused,  ///< the connection must be closed; `refusal` says why
  };

  /// Takes `bytes`, the next ones that the client sent (none: goes on with what was kept), and
  /// calls `serve(const Request&)` for each request that is whole, until that returns false. The
  /// request's views live for that call only.
  template <class Serve>
  State take(std::string_view bytes, const proto::c10d::Limits& limits, Serve&& serve) {
    if (kept_) {
      kept_->append(bytes);
      bytes = *kept_;
    }
    const std::size_t all = bytes.size();
    State state = State::hungry;
    proto::c10d::Request request;
    while (bytes.size() >= parser_.bytes_needed()) {
      const proto::c10d::ParseStatus status = parser_.next(bytes, limits, request);
      if (status == proto::c10d::ParseStatus::refused) return State::refused;
      if (status == proto::c10d::ParseStatus::incomplete) break;
      bytes.remove_prefix(request.size);
      if (!serve(std::as_const(request))) {
        state = State::stopped;
        break;
      }
    }
    keep(bytes, all - bytes.size());
    return state;
  }

  [[nodiscard]] const proto::c10d::Refusal& refusal() const { return parser_.refusal(); }
  /// The first request was whole, and what dialect it was in.
  [[nodiscard]] bool greeted() const { return parser_.greeted(); }
  [[nodiscard]] bool old_dialect() const { return parser_.old_dialect(); }
  /// Bytes held for requests that are not served yet.
  [[nodiscard]] std::size_t kept_bytes() const { return kept_ ? kept_->size() : 0; }

 private:
  static constexpr std::size_t kKeptCapacityMax = 64 * 1024;

  void keep(std::string_view rest, std::size_t served_bytes) {
    if (rest.empty()) {
      kept_.reset();
    } else if (kept_ && (served_bytes == 0 || kept_->capacity() <= kKeptCapacityMax)) {
      kept_->erase(0, served_bytes);
    } else {
      kept_ = std::make_unique<std::string>(rest);  // lets go of the memory of a large request
    }
  }

  std::unique_ptr<std::string> kept_;
  proto::c10d::RequestParser parser_;
};

}  // namespace ddprun::rdzv
