// One connection to the rendezvous service: its socket, and the channel that makes messages of
// bytes. Lives on the service's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "proto/control_channel.hpp"
#include "rendezvous/service/job.hpp"
#include "rendezvous/service/lack.hpp"

namespace ddprun::rdzv {

class ServicePeer : public std::enable_shared_from_this<ServicePeer> {
 public:
  /// What the service does with it. None of them destroys the peer before it returns.
  struct Events {
    /// Its first bytes are those of a control connection.
    std::function<void(ServicePeer&)> controls;
    std::function<void(ServicePeer&)> opened;
    std::function<void(ServicePeer&, proto::ClientMessage)> said;
    /// Once, and nothing follows. `cleanly`: by FIN. `why`: what was wrong with it; empty: it went
    /// by itself.
    std::function<void(ServicePeer&, bool cleanly, const std::string& why)> ended;
    /// It has said nothing at all for its time: whether that may be a store's client.
    std::function<bool(ServicePeer&)> is_silent;
    /// It is none of ours: its first bytes, which are still to be read, are others, or it says
    /// nothing.
    std::function<void(ServicePeer&, UniqueFd)> speaks_c10d;
    /// Every connection through a network must be encrypted by it. Null: none may be.
    std::shared_ptr<const proto::Encrypter> encrypter;
  };

  /// Unread output of one peer; a slower reader is dropped.
  static constexpr std::size_t kOutputBytesMax = std::size_t{1} << 20;

  /// Errors of `begin`: the system's, where the descriptor cannot be watched.
  /// `addr`: numeric; empty: it is in this process, and its end proves nothing.
  ServicePeer(boost::asio::io_context& context, ConnectionId id, std::string addr,
              std::shared_ptr<const Events> events);
  ErrorCode begin(UniqueFd fd, proto::ControlChannel::Settings settings);

  [[nodiscard]] ConnectionId id() const { return id_; }
  [[nodiscard]] const std::string& addr() const { return addr_; }
  /// The address with its port, for people. Empty: it is in this process, or never began.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// As base/socket.hpp has it. Empty: it is in this process, or has ended.
  [[nodiscard]] std::string path();
  [[nodiscard]] bool is_open() const { return channel_ && channel_->is_open(); }
  [[nodiscard]] const proto::Hello* hello() const { return channel_ ? channel_->peer() : nullptr; }
  /// As ControlChannel's.
  [[nodiscard]] const std::string* claimed_run_id() const {
    return channel_ ? channel_->claimed_run_id() : nullptr;
  }

  /// What the connection lacked where it ended before it was open. Proof: it was asked for one, and
  /// gave a wrong one or left.
  [[nodiscard]] Lack lack() const { return lack_; }

  /// Goes out with `flush`.
  void send(proto::ServiceMessage message);
  void flush();
  /// When the output is sent, the connection is closed in order, so that the other side can read
  /// it.
  void close_in_order();
  /// It has this long for what is expected of it next; or, once it is being closed, to read its
  /// last words.
  void expect_within(std::chrono::milliseconds within);
  /// Its session tells from now on how long it may be silent.
  void expect_forever() { timer_.cancel(); }
  /// Ends it, because another needs its place, or its descriptor.
  void make_way_for_place();
  void make_way_for_descriptor();
  /// Now, by a reset.
  void reset();

 private:
  void look_at_first_bytes();
  [[nodiscard]] std::size_t first_bytes();
  void give_up();
  void hand_over();
  void begin_channel(bool encrypted);
  void await_bytes();
  void read();
  void take(std::string_view bytes);
  void read_claim(std::string_view bytes);
  void end(bool cleanly, const std::string& why);

  const ConnectionId id_;
  const std::string addr_;
  std::string name_;
  const std::shared_ptr<const Events> events_;
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<proto::ControlChannel::Settings> settings_;  // until it is known to be control
  std::optional<proto::ControlChannel> channel_;
  std::string unsent_;
  bool writing_ = false;
  bool closing_ = false;     // nothing that arrives counts any more
  std::string why_closing_;  // for the people here; empty: they need not know
  Lack lack_ = Lack::nothing;
  bool is_claim_read_ = false;  // or its first bytes are no hello
  bool ended_ = false;
};

}  // namespace ddprun::rdzv
