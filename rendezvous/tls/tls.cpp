#include "rendezvous/tls/tls.hpp"

#include <utility>

#include "rendezvous/tls/openssl.hpp"
#include "rendezvous/tls/tls_end.hpp"

namespace ddprun::rdzv {
namespace {

using Opened = boost::system::result<std::shared_ptr<const proto::Encrypter>, std::string>;
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

/// A policy of this machine may forbid what the contexts accept: both ends would then blame each
/// other's secret.
bool can_shake_hands(const proto::Encrypter& encrypter) {
  const std::string secret = "a secret of this moment";
  const auto client = encrypter.client(secret, "");
  const auto service = encrypter.service([&secret](const std::string&) { return secret; });
  const std::string said = "x";
  client->encrypt(said);
  std::string heard;
  std::string unused;
  for (int turn = 0; turn < 2; ++turn) {
    if (service->decrypt(client->take_output(), heard) ||
        client->decrypt(service->take_output(), unused))
      return false;
  }
  return heard == said;
}

Opened open() {
  auto library = openssl::open_library();
  if (!library) return {boost::system::in_place_error, library.error()};
  const openssl::Functions& call = (*library)->call;
  ContextHolder client = context_of(**library, call.client_method());
  ContextHolder service = context_of(**library, call.server_method());
  if (client && service) {
    // A service has no certificate, and a client trusts none: none can stand in for the key.
    call.context_set_verify(client.get(), kVerifyPeer, nullptr);
    auto encrypter =
        std::make_shared<TlsEncrypter>(*library, std::move(client), std::move(service));
    if (can_shake_hands(*encrypter)) return std::shared_ptr<const proto::Encrypter>(encrypter);
  }
  return {boost::system::in_place_error,
          (*library)->version +
              " cannot do TLS 1.3 here: its settings (openssl.cnf, a crypto policy) may forbid the "
              "protocol, its key exchange or AES-128-GCM"};
}

}  // namespace

Opened open_tls() {
  static const Opened& opened = *new Opened(open());  // connections may outlive static objects
  return opened;
}

}  // namespace ddprun::rdzv
