// A TLS client that does what ours never does: it gives another identity, and says a last word.
#pragma once

#include <dlfcn.h>

#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "proto/encryption.hpp"
#include "proto/frame_tag.hpp"
#include "rendezvous/tls/openssl.hpp"

namespace ddprun::test {

/// Requires that OpenSSL can be opened.
class StrangeClient {
 public:
  StrangeClient(const std::string& secret, std::string identity)
      : identity_(std::move(identity)), key_(proto::encryption_key(secret)) {
    self() = this;
    auto opened = rdzv::openssl::open_library();
    REQUIRE(opened.has_value());
    library_ = *opened;
    context_ = call().SSL_CTX_new(call().TLS_client_method());
    call().SSL_CTX_set_ciphersuites(context_, "TLS_AES_128_GCM_SHA256");
    call().SSL_CTX_set_psk_use_session_callback(context_, &StrangeClient::use_session);
    connection_ = call().SSL_new(context_);
    arrived_ = call().BIO_new(call().BIO_s_mem());
    to_send_ = call().BIO_new(call().BIO_s_mem());
    call().SSL_set_bio(connection_, arrived_, to_send_);
    call().SSL_set_connect_state(connection_);
  }
  ~StrangeClient() {
    call().SSL_free(connection_);
    call().SSL_CTX_free(context_);
  }
  StrangeClient(const StrangeClient&) = delete;
  StrangeClient& operator=(const StrangeClient&) = delete;

  /// Until neither has anything to send. Returns why the service has failed.
  ErrorCode talk_to(proto::Encryption& service, std::string& heard) {
    while (true) {
      call().ERR_clear_error();
      call().SSL_do_handshake(connection_);
      std::string up(call().BIO_ctrl_pending(to_send_), '\0');
      if (!up.empty()) call().BIO_read(to_send_, up.data(), static_cast<int>(up.size()));
      if (const ErrorCode failed = service.decrypt(up, heard)) return failed;
      const std::string down = service.take_output();
      if (up.empty() && down.empty()) return {};
      if (!down.empty()) call().BIO_write(arrived_, down.data(), static_cast<int>(down.size()));
    }
  }
  int say(const std::string& text) {
    return call().SSL_write(connection_, text.data(), static_cast<int>(text.size()));
  }
  /// Its close_notify is in the output.
  void end() {
    void* const handle = dlopen("libssl.so.3", RTLD_NOW | RTLD_NOLOAD);
    void* const library = handle ? handle : dlopen("libssl.so.1.1", RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(library != nullptr);
    const auto shut_down =
        reinterpret_cast<decltype(&::SSL_shutdown)>(dlsym(library, "SSL_shutdown"));
    REQUIRE(shut_down != nullptr);
    shut_down(connection_);
    dlclose(library);
  }

 private:
  /// OpenSSL's callback has nothing but the connection; there is one client at a time.
  static StrangeClient*& self() {
    static StrangeClient* client = nullptr;
    return client;
  }
  static int use_session(SSL* connection, const EVP_MD*, const unsigned char** identity,
                         std::size_t* identity_bytes, SSL_SESSION** session) {
    const StrangeClient& client = *self();
    const auto& call = client.call();
    constexpr std::array<unsigned char, 2> kCipher{0x13, 0x01};
    *session = call.SSL_SESSION_new();
    call.SSL_SESSION_set1_master_key(*session, client.key_.data(), client.key_.size());
    call.SSL_SESSION_set_cipher(*session, call.SSL_CIPHER_find(connection, kCipher.data()));
    call.SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
    *identity = reinterpret_cast<const unsigned char*>(client.identity_.data());
    *identity_bytes = client.identity_.size();
    return 1;
  }
  [[nodiscard]] const rdzv::openssl::Functions& call() const { return library_->call; }

  const std::string identity_;
  const proto::SessionKey key_;
  std::shared_ptr<const rdzv::openssl::Library> library_;
  SSL_CTX* context_ = nullptr;
  SSL* connection_ = nullptr;
  BIO* arrived_ = nullptr;
  BIO* to_send_ = nullptr;
};

}  // namespace ddprun::test
