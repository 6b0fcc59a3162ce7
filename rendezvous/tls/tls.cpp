#include "rendezvous/tls/tls.hpp"

#include <utility>

#include "rendezvous/tls/openssl.hpp"
#include "rendezvous/tls/tls_end.hpp"

namespace ddprun::rdzv {
namespace {

using openssl::Context;
using openssl::Library;

// Of openssl/ssl.h.
constexpr int kSetMode = 33;
constexpr int kSetSessionCacheMode = 44;
constexpr int kSetMinProtocol = 123;
constexpr long kReleaseBuffers = 0x10;
constexpr long kNoSessionCache = 0;
constexpr int kVerifyPeer = 1;

/// Both with SHA-256, as the key has.
constexpr const char* kCipherSuites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";

using ContextHolder = std::unique_ptr<Context, void (*)(Context*)>;

/// Null: this OpenSSL may not do that.
ContextHolder context_of(const Library& library, const openssl::Method* method) {
  const openssl::Functions& call = library.call;
  ContextHolder context(call.context_new(method), call.context_free);
  if (!context || call.context_ctrl(context.get(), kSetMinProtocol, kTls13, nullptr) != 1 ||
      call.context_set_ciphersuites(context.get(), kCipherSuites) != 1 ||
      call.context_set_num_tickets(context.get(), 0) != 1)
    return {nullptr, call.context_free};
  call.context_ctrl(context.get(), kSetMode, kReleaseBuffers, nullptr);
  call.context_ctrl(context.get(), kSetSessionCacheMode, kNoSessionCache, nullptr);
  return context;
}

class TlsEncrypter final : public proto::Encrypter {
 public:
  TlsEncrypter(std::shared_ptr<const Library> library, ContextHolder client, ContextHolder service)
      : library_(std::move(library)),
        client_(std::move(client)),
        service_(std::move(service)),
        description_("TLS 1.3, " + library_->version) {
    TlsEnd::prepare_client(*library_, client_.get());
    TlsEnd::prepare_service(*library_, service_.get());
  }

  [[nodiscard]] std::unique_ptr<proto::Encryption> client(
      const std::string& secret, const std::string& run_id) const override {
    return std::make_unique<TlsEnd>(library_, client_.get(), secret, run_id);
  }
  [[nodiscard]] std::unique_ptr<proto::Encryption> service(
      proto::SecretFor secret_for) const override {
    return std::make_unique<TlsEnd>(library_, service_.get(), std::move(secret_for));
  }
  [[nodiscard]] const std::string& description() const override { return description_; }

 private:
  const std::shared_ptr<const Library> library_;
  const ContextHolder client_;
  const ContextHolder service_;
  const std::string description_;
};

}  // namespace

boost::system::result<std::shared_ptr<const proto::Encrypter>, std::string> open_tls() {
  auto opened = openssl::open_library();
  if (!opened) return {boost::system::in_place_error, opened.error()};
  const openssl::Functions& call = (*opened)->call;
  ContextHolder client = context_of(**opened, call.client_method());
  ContextHolder service = context_of(**opened, call.server_method());
  if (!client || !service)
    return {boost::system::in_place_error,
            (*opened)->version +
                " cannot do TLS 1.3 with AES-128-GCM here: its settings (openssl.cnf, a crypto "
                "policy) may forbid it"};
  // A service has no certificate, and a client trusts none: none can stand in for the key.
  call.context_set_verify(client.get(), kVerifyPeer, nullptr);
  return std::shared_ptr<const proto::Encrypter>(
      std::make_shared<TlsEncrypter>(std::move(*opened), std::move(client), std::move(service)));
}

}  // namespace ddprun::rdzv
