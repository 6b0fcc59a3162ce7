// A whole store without sockets: what clients send goes in, what each of them would read comes out.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/store/request_stream.hpp"
#include "rendezvous/store/store_core.hpp"
#include "rendezvous/store/store_settings.hpp"
#include "tests/support/c10d_requests.hpp"

namespace ddprun::test {

/// All bytes of a reply buffer, which is empty afterwards.
inline std::string drain(rdzv::ReplyBuffer& replies) {
  std::string bytes;
  while (!replies.empty()) {
    iovec piece{};
    replies.gather({&piece, 1});
    bytes.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    replies.consume(piece.iov_len);
  }
  return bytes;
}

class PureStore {
 public:
  explicit PureStore(rdzv::StoreSettings settings = {})
      : settings_(settings), core_(settings.waited_keys_max, settings.store_bytes_max) {}

  /// Client `id` sends `bytes`; a client that has sent nothing before has just connected.
  void send(rdzv::ConnectionId id, std::string_view bytes) {
    Client& client = clients_.try_emplace(id, settings_.accept_old_dialect).first->second;
    if (client.closed != proto::c10d::Refusal::Why::none) return;
    proto::c10d::Refusal refusal;
    const auto state =
        client.input.take(bytes, settings_.request, [&](const proto::c10d::Request& request) {
          rdzv::ReplyBuffer reply;
          refusal = core_.apply(id, request, reply, released_);
          client.received += drain(reply);
          for (const rdzv::ConnectionId released : released_)
            clients_.at(released).received.push_back('\0');
          return !refusal;
        });
    if (state == rdzv::RequestStream::State::refused) refusal = client.input.refusal();
    if (!refusal) return;
    client.closed = refusal.why;
    core_.disconnect(id);
  }
  /// VALIDATE.
  void connect(rdzv::ConnectionId id) {
    std::string bytes;
    proto::c10d::RequestWriter(bytes).validate();
    send(id, bytes);
  }
  void disconnect(rdzv::ConnectionId id) {
    core_.disconnect(id);
    clients_.erase(id);
  }
  /// What client `id` has received since the last call.
  std::string received(rdzv::ConnectionId id) {
    return std::exchange(clients_.at(id).received, {});
  }
  /// Why client `id` was closed.
  [[nodiscard]] proto::c10d::Refusal::Why closed(rdzv::ConnectionId id) const {
    return clients_.at(id).closed;
  }
  [[nodiscard]] const rdzv::StoreCore& core() const { return core_; }
  [[nodiscard]] std::size_t kept_bytes(rdzv::ConnectionId id) const {
    return clients_.at(id).input.kept_bytes();
  }

 private:
  struct Client {
    explicit Client(bool accept_old_dialect) : input(accept_old_dialect) {}
    rdzv::RequestStream input;
    std::string received;
    proto::c10d::Refusal::Why closed = proto::c10d::Refusal::Why::none;
  };

  rdzv::StoreSettings settings_;
  rdzv::StoreCore core_;
  std::map<rdzv::ConnectionId, Client> clients_;
  std::vector<rdzv::ConnectionId> released_;
};

}  // namespace ddprun::test
