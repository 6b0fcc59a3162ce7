// One end of a control connection without its socket: bytes that arrive become messages, messages
// become bytes to send. It exchanges the hellos, and the proofs where the service has a secret;
// from then on every frame is tagged.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "proto/encryption.hpp"
#include "proto/frame.hpp"
#include "proto/frame_tag.hpp"

namespace ddprun::proto {

/// The first message of this program on a control connection, with a fresh nonce; `run_id` of an
/// agent.
Hello rendezvous_hello(std::string run_id = {});

class ControlChannel {
 public:
  struct Settings {
    Side side = Side::client;
    /// With a nonce; `auth` is set by the channel.
    Hello hello;
    std::string secret;        ///< empty: none. The service then asks for no proof
    bool needs_proof = false;  ///< of a client: it talks to no service that has no secret
    /// For a service with several secrets: gives the one for the run id in a client's hello, in the
    /// place of `secret`. Empty: there is none for it, and no proof is right.
    SecretFor secret_for = {};
    /// For a client: gives the secret in the service's credential, in the place of `secret`. Empty:
    /// it cannot be read.
    std::function<std::string(const std::string& credential)> secret_of = {};
    /// Everything goes through it, the hellos as well. Null: nothing is encrypted.
    std::unique_ptr<Encryption> encryption = nullptr;
  };

  /// Its hello is in the output at once.
  explicit ControlChannel(Settings settings);

  void append(std::string_view bytes);
  /// The next message's body, valid until the next call; none: more bytes are needed. A client may
  /// read a `refused` before the channel is open.
  /// Errors, after which the connection must be dropped: malformed; too_large; version_mismatch;
  /// not_authentic: a proof or a tag is wrong; secret_missing: the service asks for a proof and we
  /// have no secret, nor can read its credential; proof_missing: the service has no secret;
  /// not_encrypted: we encrypt and it does not; certificate_refused. What is in the output then
  /// tells the other side.
  Result<std::optional<std::string_view>> next();

  /// Appends a message to the output. Before the channel is open only a `refused` of the service
  /// may be sent. False: it is larger than a frame may be, and nothing was sent.
  [[nodiscard]] bool send(std::string_view body);

  /// Whether messages can be exchanged.
  [[nodiscard]] bool is_open() const { return stage_ == Stage::open; }
  /// Whether both sides have proven the secret.
  [[nodiscard]] bool is_proven() const { return is_open() && incoming_.has_value(); }
  /// Null: its hello has not arrived.
  [[nodiscard]] const Hello* peer() const { return peer_ ? &*peer_ : nullptr; }
  /// The job that the client of this service has named; the client may not have its secret. Null:
  /// none yet.
  [[nodiscard]] const std::string* claimed_run_id() const;
  /// After an error of `next`: its words for people.
  [[nodiscard]] std::string why(const ErrorCode& error) const;
  [[nodiscard]] bool peer_is_newer() const { return peer_ && is_newer(*peer_, settings_.hello); }

  /// Bytes to send, in front of all that come later.
  std::string take_output();
  [[nodiscard]] std::size_t output_bytes() const { return output_.size(); }

 private:
  enum class Stage { hello, proof, open, failed };

  ErrorCode take_hello(std::string_view body);
  Result<std::optional<std::string_view>> take_proof(std::string_view body);
  void send_proof();
  void open_channel();
  [[nodiscard]] HelloHash& hello_of(Side side) {
    return side == Side::client ? handshake_.client : handshake_.service;
  }
  void append_frame(std::string_view body) { output_ += encode_frame(body); }

  Settings settings_;
  Stage stage_ = Stage::hello;
  FrameParser parser_{kFrameBytesBeforeProof};
  ErrorCode undecryptable_;
  std::optional<Hello> peer_;
  Handshake handshake_;
  std::optional<TaggedFrames> incoming_;
  std::optional<TaggedFrames> outgoing_;
  std::string output_;
};

}  // namespace ddprun::proto
