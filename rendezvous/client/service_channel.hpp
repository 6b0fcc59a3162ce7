// The control channel of an agent to its service, step by step: bytes in, what they mean out. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/result.hpp"
#include "proto/control_channel.hpp"
#include "proto/session_messages.hpp"

namespace ddprun::rdzv {

class ServiceChannel {
 public:
  /// Messages can be exchanged from now on.
  struct Opened {};
  /// The connection must be dropped, once the output is sent, which may tell the other side why.
  /// Also where a message cannot be read that this side should know.
  struct Broken {
    ErrorCode error;
    std::string why;  ///< for people
    bool was_open = false;
  };
  using Step = std::variant<Opened, Broken, proto::ServiceMessage>;

  explicit ServiceChannel(proto::ControlChannel::Settings settings)
      : channel_(std::move(settings)) {}

  void append(std::string_view bytes) { channel_.append(bytes); }
  /// None: more bytes are needed; always so once it is broken.
  std::optional<Step> next();

  [[nodiscard]] bool is_open() const { return channel_.is_open(); }
  [[nodiscard]] bool is_proven() const { return channel_.is_proven(); }
  /// As ControlChannel's.
  [[nodiscard]] bool send(std::string_view body) { return channel_.send(body); }
  std::string take_output() { return channel_.take_output(); }

 private:
  [[nodiscard]] std::optional<Step> read(std::string_view body) const;

  proto::ControlChannel channel_;
  std::optional<std::string> first_body_;  // that came with the end of the handshake
  bool is_broken_ = false;
};

}  // namespace ddprun::rdzv
