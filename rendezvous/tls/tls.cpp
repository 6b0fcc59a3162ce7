#include "rendezvous/tls/tls.hpp"

#include <utility>

#include "rendezvous/tls/certificate_end.hpp"
#include "rendezvous/tls/certificate_files.hpp"
#include "rendezvous/tls/openssl.hpp"
#include "rendezvous/tls/psk_end.hpp"

namespace ddprun::rdzv {
namespace {

using Opened = boost::system::result<std::shared_ptr<const proto::Encrypter>, std::string>;
using openssl::Library;

/// Both with SHA-256, as the key has.
constexpr const char* kCipherSuites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";

using ContextHolder = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;

/// Null: this OpenSSL may not do that.
ContextHolder context_of(const Library& library, const SSL_METHOD* method, long oldest) {
  const openssl::Functions& call = library.call;
  ContextHolder context(call.SSL_CTX_new(method), call.SSL_CTX_free);
  if (!context ||
      call.SSL_CTX_ctrl(context.get(), SSL_CTRL_SET_MIN_PROTO_VERSION, oldest, nullptr) != 1 ||
      call.SSL_CTX_set_num_tickets(context.get(), 0) != 1)
    return {nullptr, call.SSL_CTX_free};
  call.SSL_CTX_ctrl(context.get(), SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, nullptr);
  call.SSL_CTX_ctrl(context.get(), SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  return context;
}

class PskEncrypter final : public proto::Encrypter {
 public:
  PskEncrypter(std::shared_ptr<const Library> library, ContextHolder client, ContextHolder service)
      : library_(std::move(library)),
        client_(std::move(client)),
        service_(std::move(service)),
        description_("TLS 1.3, " + library_->version) {
    PskEnd::prepare_client(*library_, client_.get());
    PskEnd::prepare_service(*library_, service_.get());
  }

  [[nodiscard]] std::unique_ptr<proto::Encryption> client(const Client& client) const override {
    return std::make_unique<PskEnd>(library_, client_.get(), client.secret, client.run_id);
  }
  [[nodiscard]] std::unique_ptr<proto::Encryption> service(
      proto::SecretFor secret_for) const override {
    return std::make_unique<PskEnd>(library_, service_.get(), std::move(secret_for));
  }
  [[nodiscard]] const std::string& why_no_service() const override { return nothing_; }
  [[nodiscard]] bool checks_clients() const override { return true; }
  [[nodiscard]] const std::string& description() const override { return description_; }

 private:
  const std::shared_ptr<const Library> library_;
  const ContextHolder client_;
  const ContextHolder service_;
  const std::string description_;
  const std::string nothing_;
};

class CertificateEncrypter final : public proto::Encrypter {
 public:
  CertificateEncrypter(std::shared_ptr<const Library> library, ContextHolder client,
                       ContextHolder service, CertificateSettings settings)
      : library_(std::move(library)),
        client_(std::move(client)),
        service_(std::move(service)),
        settings_(std::make_shared<const CertificateSettings>(std::move(settings))),
        description_((settings_->allows_tls12 ? "TLS 1.2 or 1.3 with certificates, "
                                              : "TLS 1.3 with certificates, ") +
                     library_->version) {
    if (settings_->certificate.path.empty())
      why_no_service_ = "a certificate is missing: add " + settings_->certificate.option +
                        "=FILE and " + settings_->key.option + "=FILE" + settings_->where;
    CertificateEnd::prepare(*library_, client_.get(), SSL_VERIFY_PEER);
    CertificateEnd::prepare(
        *library_, service_.get(),
        checks_clients() ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE);
  }

  [[nodiscard]] std::unique_ptr<proto::Encryption> client(const Client& client) const override {
    return std::make_unique<CertificateEnd>(library_, client_.get(), settings_, client.host);
  }
  [[nodiscard]] std::unique_ptr<proto::Encryption> service(proto::SecretFor) const override {
    return std::make_unique<CertificateEnd>(library_, service_.get(), settings_);
  }
  [[nodiscard]] const std::string& why_no_service() const override { return why_no_service_; }
  [[nodiscard]] bool checks_clients() const override {
    return !settings_->authorities.path.empty();
  }
  [[nodiscard]] const std::string& description() const override { return description_; }

 private:
  const std::shared_ptr<const Library> library_;
  const ContextHolder client_;
  const ContextHolder service_;
  const std::shared_ptr<const CertificateSettings> settings_;
  const std::string description_;
  std::string why_no_service_;
};

/// A policy of this machine may forbid what the contexts accept: both ends would then blame each
/// other's secret.
bool can_shake_hands(const proto::Encrypter& encrypter) {
  const std::string secret = "a secret of this moment";
  const auto client = encrypter.client({"", secret, ""});
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

std::string forbidden(const Library& library) {
  return library.version +
         " cannot do TLS 1.3 here: its settings (openssl.cnf, a crypto policy) may forbid the "
         "protocol, its key exchange or AES-128-GCM";
}

Opened open() {
  auto library = openssl::open_library();
  if (!library) return {boost::system::in_place_error, library.error()};
  const openssl::Functions& call = (*library)->call;
  ContextHolder client = context_of(**library, call.TLS_client_method(), TLS1_3_VERSION);
  ContextHolder service = context_of(**library, call.TLS_server_method(), TLS1_3_VERSION);
  if (client && service && call.SSL_CTX_set_ciphersuites(client.get(), kCipherSuites) == 1 &&
      call.SSL_CTX_set_ciphersuites(service.get(), kCipherSuites) == 1) {
    // Here a service has no certificate, and a client trusts none: none can stand in for the key.
    call.SSL_CTX_set_verify(client.get(), SSL_VERIFY_PEER, nullptr);
    auto encrypter =
        std::make_shared<PskEncrypter>(*library, std::move(client), std::move(service));
    if (can_shake_hands(*encrypter)) return std::shared_ptr<const proto::Encrypter>(encrypter);
  }
  return {boost::system::in_place_error, forbidden(**library)};
}

}  // namespace

Opened open_tls() {
  static const Opened& opened = *new Opened(open());  // connections may outlive static objects
  return opened;
}

boost::system::result<CertificateTls, std::string> open_tls(const CertificateSettings& settings) {
  using OpenedFiles = boost::system::result<CertificateTls, std::string>;
  auto library = openssl::open_library();
  if (!library)
    return {
        boost::system::in_place_error,
        (settings.certificate.path.empty() ? settings.authorities : settings.certificate).option +
            ": " + library.error()};
  const auto texts = read_pem_files(settings);
  if (!texts) return {boost::system::in_place_error, texts.error()};
  const openssl::Functions& call = (*library)->call;
  const long oldest = settings.allows_tls12 ? TLS1_2_VERSION : TLS1_3_VERSION;
  ContextHolder client = context_of(**library, call.TLS_client_method(), oldest);
  ContextHolder service = context_of(**library, call.TLS_server_method(), oldest);
  if (!client || !service) return {boost::system::in_place_error, forbidden(**library)};
  for (SSL_CTX* context : {client.get(), service.get()}) {
    std::string why = use_certificates(call, context, settings, *texts);
    if (!why.empty()) return {boost::system::in_place_error, std::move(why)};
  }
  return OpenedFiles(boost::system::in_place_value,
                     CertificateTls{std::make_shared<CertificateEncrypter>(
                                        *library, std::move(client), std::move(service), settings),
                                    texts->warning});
}

}  // namespace ddprun::rdzv
