// One end of a TLS connection without its socket.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "proto/encryption.hpp"
#include "proto/frame_tag.hpp"
#include "rendezvous/tls/openssl.hpp"

namespace ddprun::rdzv {

inline constexpr int kTls13 = 0x0304;

class TlsEnd final : public proto::Encryption {
 public:
  /// Of all connections of a context; before the first of them.
  static void prepare_client(const openssl::Library& library, openssl::Context* context);
  static void prepare_service(const openssl::Library& library, openssl::Context* context);

  /// A client. The context is borrowed. Throws std::bad_alloc, as the other one does.
  TlsEnd(std::shared_ptr<const openssl::Library> library, openssl::Context* context,
         const std::string& secret, const std::string& run_id);
  /// A service.
  TlsEnd(std::shared_ptr<const openssl::Library> library, openssl::Context* context,
         proto::SecretFor secret_for);
  ~TlsEnd() override;

  ErrorCode decrypt(std::string_view bytes, std::string& plain) override;
  void encrypt(std::string_view plain) override;
  std::string take_output() override;
  [[nodiscard]] const std::string& run_id() const override { return run_id_; }

  /// That have arrived and are not read yet.
  [[nodiscard]] std::size_t held_bytes() const { return call_.bio_pending(arrived_); }

 private:
  enum class Stage { handshake, open, closed };

  TlsEnd(std::shared_ptr<const openssl::Library> library, openssl::Context* context);
  static TlsEnd& of(const openssl::Connection* connection);
  static int use_session(openssl::Connection* connection, const openssl::Digest* digest,
                         const unsigned char** identity, std::size_t* identity_bytes,
                         openssl::Session** session);
  static int find_session(openssl::Connection* connection, const unsigned char* identity,
                          std::size_t identity_bytes, openssl::Session** session);

  [[nodiscard]] openssl::Session* session_with(const std::string& secret) const;
  bool take_first_bytes(std::string_view bytes);
  ErrorCode shake_hands();
  ErrorCode read(std::string& plain);
  void write(std::string_view plain);

  const std::shared_ptr<const openssl::Library> library_;
  const openssl::Functions& call_;
  openssl::Connection* connection_;
  openssl::Bio* arrived_;  // the connection's, as is the next one
  openssl::Bio* to_send_;
  Stage stage_ = Stage::handshake;
  ErrorCode failed_;
  std::string first_bytes_;
  bool is_tls_ = false;
  bool key_was_asked_for_ = false;
  std::string secret_;  // of a client, until the handshake is over
  proto::SecretFor secret_for_;
  std::string run_id_;
  std::string identity_;
  std::string waiting_;        // for the end of the handshake
  std::exception_ptr thrown_;  // by a callback, which OpenSSL cannot pass on
};

}  // namespace ddprun::rdzv
