// One end of a TLS connection without its socket: bytes, the handshake and its end. What the ends
// prove to each other is in psk_end.hpp and certificate_end.hpp.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "proto/encryption.hpp"
#include "rendezvous/tls/openssl.hpp"

namespace ddprun::rdzv {

class TlsEnd : public proto::Encryption {
 public:
  ~TlsEnd() override;

  ErrorCode decrypt(std::string_view bytes, std::string& plain) final;
  void encrypt(std::string_view plain) final;
  std::string take_output() final;
  [[nodiscard]] const std::string& problem() const final { return problem_; }
  [[nodiscard]] const std::string& run_id() const final { return run_id_; }

  /// That have arrived and are not read yet.
  [[nodiscard]] std::size_t held_bytes() const { return call_.BIO_ctrl_pending(arrived_); }

 protected:
  /// The context is borrowed. Throws std::bad_alloc.
  TlsEnd(std::shared_ptr<const openssl::Library> library, SSL_CTX* context);

  /// For OpenSSL's callbacks, which have nothing but the connection.
  static TlsEnd& of(const SSL* connection);
  /// Requires that there has been an end.
  static const openssl::Functions& functions();

  /// At the end of the constructor of what is derived: `shake_hands` asks it.
  void begin_as_client();
  void begin_as_service();
  /// From within a callback of OpenSSL, which cannot pass it on.
  void note_thrown() { thrown_ = std::current_exception(); }
  void set_problem(std::string problem) { problem_ = std::move(problem); }

  /// Both ends have agreed. An error: they have not proven enough.
  virtual ErrorCode accept_handshake() = 0;
  /// The error of a handshake that failed with OpenSSL's `error`; 0: it has given none.
  virtual ErrorCode failure_of(unsigned long error) = 0;
  /// The error of a read that failed with OpenSSL's `error`, the first one behind the handshake: a
  /// client's handshake is over before the service has seen its certificate.
  virtual ErrorCode failure_behind_handshake(unsigned long error);

  const openssl::Functions& call_;
  SSL* connection_;
  std::string run_id_;

 private:
  enum class Stage { handshake, open, closed };

  bool take_first_bytes(std::string_view bytes);
  ErrorCode shake_hands();
  ErrorCode read(std::string& plain);
  void write(std::string_view plain);

  const std::shared_ptr<const openssl::Library> library_;
  BIO* arrived_;  // the connection's, as is the next one
  BIO* to_send_;
  Stage stage_ = Stage::handshake;
  ErrorCode failed_;
  std::string problem_;
  std::string first_bytes_;
  bool is_tls_ = false;
  bool has_read_ = false;      // anything
  std::string waiting_;        // for the end of the handshake
  std::exception_ptr thrown_;  // by a callback
};

/// What an error is about, without the library it comes from (openssl/err.h).
inline unsigned long reason_of(unsigned long error) { return error & 0xfff; }

}  // namespace ddprun::rdzv
