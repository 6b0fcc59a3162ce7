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
  /// another secret, or bytes were changed; not_encrypted: it is a control connection that does not
  /// encrypt; malformed.
  virtual ErrorCode decrypt(std::string_view bytes, std::string& plain) = 0;
  /// Bytes for the other end; they wait until both ends have proven the secret.
  virtual void encrypt(std::string_view plain) = 0;
  /// Bytes for the socket, in front of all that come later.
  virtual std::string take_output() = 0;
  /// Of a service: the run id that the client has given with its first bytes. Empty: none so far.
  [[nodiscard]] virtual const std::string& run_id() const = 0;
};

/// Makes the ends of connections. Used by any thread.
class Encrypter {
 public:
  Encrypter() = default;
  Encrypter(const Encrypter&) = delete;
  Encrypter& operator=(const Encrypter&) = delete;
  virtual ~Encrypter() = default;

  /// Its first bytes are in the output at once.
  [[nodiscard]] virtual std::unique_ptr<Encryption> client(const std::string& secret,
                                                           const std::string& run_id) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Encryption> service(SecretFor secret_for) const = 0;
  /// For people: the protocol, and the library with its version.
  [[nodiscard]] virtual const std::string& description() const = 0;
};

}  // namespace ddprun::proto
