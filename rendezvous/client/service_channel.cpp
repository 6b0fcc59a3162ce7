#include "rendezvous/client/service_channel.hpp"

#include "proto/error.hpp"

namespace ddprun::rdzv {

std::optional<ServiceChannel::Step> ServiceChannel::next() {
  if (const auto first = std::exchange(first_body_, std::nullopt)) {
    if (auto step = read(*first)) return step;
  }
  while (!is_broken_) {
    const bool was_open = channel_.is_open();
    const auto body = channel_.next();
    if (!body) {
      is_broken_ = true;
      return Broken{body.error(), channel_.why(body.error()), was_open};
    }
    if (!was_open && channel_.is_open()) {
      if (*body) first_body_.emplace(**body);
      return Opened{};
    }
    if (!*body) return std::nullopt;
    if (auto step = read(**body)) return step;
  }
  return std::nullopt;
}

/// None: a newer service says what this side need not know.
std::optional<ServiceChannel::Step> ServiceChannel::read(std::string_view body) const {
  auto message = proto::decode_service_message(body);
  if (message) return std::move(*message);
  if (message.error() == proto::Errc::unknown_kind && channel_.peer_is_newer()) return std::nullopt;
  return Broken{message.error(), message.error().message(), true};
}

}  // namespace ddprun::rdzv
