// What encrypts a control connection, between its channel and its socket. An interface, so that a
// program without encryption needs no library for it; rendezvous/tls/tls.hpp implements it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace ddprun::proto {

/// The secret of the job with this run id; empty: there is none, and no client is right.
using SecretFor = std::function<std::string(const std::string& run_id)>;

/// One end of a connection.
class Encryption {
 public:
  Encryption() = default;
  Encryption(const Encryption&) = delete;
  Encryption& operator=(const Encryption&) = delete;
  virtual ~Encryption() = default;

  /// Appends to `plain` what arrived bytes of the other end say. Errors, after which the connection
  /// must be dropped once the output is sent, which tells the other end: not_authentic: it has
  /// another secret, or bytes were changed; certificate_refused: one of both does not accept the
  /// other's certificate, or misses one; not_encrypted: it is a control connection that does not
  /// encrypt; malformed.
  virtual ErrorCode decrypt(std::string_view bytes, std::string& plain) = 0;
  /// Bytes for the other end; they wait until both ends have proven the secret.
  virtual void encrypt(std::string_view plain) = 0;
  /// Bytes for the socket, in front of all that come later.
  virtual std::string take_output() = 0;
  /// After an error: more than its code tells, for people: why and what to do. Empty: nothing.
  [[nodiscard]] virtual const std::string& problem() const = 0;
  /// The run id in the first bytes of this service's client. Empty: none so far.
  [[nodiscard]] virtual const std::string& run_id() const = 0;
};

/// Makes the ends of connections. Used by any thread.
class Encrypter {
 public:
  Encrypter() = default;
  Encrypter(const Encrypter&) = delete;
  Encrypter& operator=(const Encrypter&) = delete;
  virtual ~Encrypter() = default;

  /// What a client knows of its connection.
  struct Client {
    std::string host;    ///< of the service, as the user wrote it: a name or an address
    std::string secret;  ///< empty: none
    std::string run_id;
  };

  /// Its first bytes are in the output at once.
  [[nodiscard]] virtual std::unique_ptr<Encryption> client(const Client& client) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Encryption> service(SecretFor secret_for) const = 0;
  /// Why there can be no service, and what to do. Empty: there can be one.
  [[nodiscard]] virtual const std::string& why_no_service() const = 0;
  /// Whether a client must prove to a service what it is, even if the job has no secret.
  [[nodiscard]] virtual bool checks_clients() const = 0;
  /// For people: the protocol, and the library with its version.
  [[nodiscard]] virtual const std::string& description() const = 0;
};

}  // namespace ddprun::proto
