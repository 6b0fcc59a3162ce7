#include "rendezvous/daemon/tls_options.hpp"

#include <utility>

#include "rendezvous/daemon/usage_error.hpp"
#include "rendezvous/tls/tls.hpp"

namespace ddprun::rdzv {
namespace {

/// Null: none is wanted.
std::shared_ptr<const proto::Encrypter> certificates(const TlsTexts& texts, TlsSide side,
                                                     std::vector<std::string>& warnings) {
  if (!texts.cert && !texts.key && !texts.ca) return nullptr;
  if (texts.cert.has_value() != texts.key.has_value())
    throw UsageError(texts.cert ? "--tls-cert: the key of that certificate is missing: add "
                                  "--tls-key=FILE"
                                : "--tls-key: the certificate of that key is missing: add "
                                  "--tls-cert=FILE");
  CertificateSettings settings;
  settings.authorities = {"--tls-ca", texts.ca.value_or("")};
  settings.certificate = {"--tls-cert", texts.cert.value_or("")};
  settings.key = {"--tls-key", texts.key.value_or("")};
  const auto is_blank = [](const std::optional<std::string>& file) {
    return file && file->empty();
  };
  for (const auto& [file, given] :
       {std::pair(&settings.authorities, &texts.ca), std::pair(&settings.certificate, &texts.cert),
        std::pair(&settings.key, &texts.key)})
    if (is_blank(*given)) throw UsageError(file->option + ": the name of a file is missing");
  const bool is_observer = side == TlsSide::asks;
  if (is_observer && !texts.ca)
    throw UsageError("--tls-cert: the authority of the rendezvous is missing: add --tls-ca=FILE");
  if (!is_observer && !texts.cert)
    throw UsageError(
        "--tls-ca: a certificate for rdzvd is missing: add --tls-cert=FILE and --tls-key=FILE");
  auto opened = open_tls(settings);
  if (!opened) throw UsageError(opened.error());
  if (!opened->warning.empty()) warnings.push_back(std::move(opened->warning));
  return std::move(opened->encrypter);
}

}  // namespace

void add_tls_options(CommandLine& line, TlsTexts& texts) {
  line.flag(
      "--tls", texts.wants_key,
      "Encrypt the connections of agents and of --status and --fence: TLS 1.3 with a key "
      "from the secret. Agents that do not encrypt (ddprun's option for it is --rdzv-tls) are "
      "refused. The store's clients are not encrypted. Needs OpenSSL 1.1.1 or 3");
  line.text("--tls-cert", texts.cert, "FILE",
            "Encrypt with a certificate (PEM) in place of the secret's key. Behind it the file has "
            "those that lead to its authority. Agents need that authority (--rdzv-tls-ca), and the "
            "host of their endpoint must be among the certificate's names. To ask an rdzvd: the "
            "certificate to show, if it wants one");
  line.text("--tls-key", texts.key, "FILE",
            "Private key (PEM) of that certificate, without a pass phrase");
  line.text(
      "--tls-ca", texts.ca, "FILE",
      "To serve: agents must have a certificate that one of the authorities in FILE (PEM) has "
      "signed. To ask an rdzvd: it must have such a certificate; encrypt");
}

std::shared_ptr<const proto::Encrypter> encrypter_for(const TlsTexts& texts, TlsSide side,
                                                      bool has_secret,
                                                      std::vector<std::string>& warnings) {
  if (auto encrypter = certificates(texts, side, warnings)) return encrypter;
  if (!texts.wants_key) return nullptr;
  if (!has_secret)
    throw UsageError(
        "--tls: the key comes from a secret, and there is none: add --secret-file=FILE "
        "(ddprun --make-secret makes one), or use certificates (rdzvd --help)");
  auto opened = open_tls();
  if (!opened) throw UsageError("--tls: " + opened.error());
  return std::move(*opened);
}

}  // namespace ddprun::rdzv
