#include "rendezvous/daemon/etcd_options.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/secret_file.hpp"
#include "rendezvous/daemon/usage_error.hpp"
#include "rendezvous/tls/tls.hpp"

namespace ddprun::rdzv {
namespace {

struct Given {
  const char* option;
  const std::optional<std::string>& value;
};

void check_both(const Given& one, const Given& other, const char* placeholder) {
  if (one.value && !other.value)
    throw UsageError(
        fmt::format("{}: add {}={}; both are needed", one.option, other.option, placeholder));
}

void take_certificates(const EtcdTexts& texts, EtcdAccess& access,
                       std::vector<std::string>& warnings) {
  CertificateSettings settings;
  settings.authorities = {"--etcd-ca", texts.ca.value_or("")};
  settings.certificate = {"--etcd-cert", texts.cert.value_or("")};
  settings.key = {"--etcd-key", texts.key.value_or("")};
  settings.trusts_system = true;
  settings.allows_tls12 = true;
  auto opened = open_tls(settings);
  if (!opened) throw UsageError(opened.error());
  if (!opened->warning.empty()) warnings.push_back(std::move(opened->warning));
  access.encrypter = std::move(opened->encrypter);
}

}  // namespace

void add_etcd_options(CommandLine& line, EtcdTexts& texts) {
  line.text("--journal", texts.journal, "etcd[s]://HOST:PORT,...[/PREFIX]",
            "Keep the journal of the jobs in etcd 3.4 or newer, below PREFIX (default: ddprun); "
            "etcds: through TLS. "
            "Several rdzvd with the same journal share its jobs: one of them leads, and if it ends "
            "another one continues the jobs without a restart. Agents name all of them as their "
            "endpoint (--rdzv-endpoint)");
  line.text(
      "--etcd-ca", texts.ca, "FILE",
      "With etcds: the authorities (PEM) that may have signed etcd's certificates. Without it, "
      "those of this machine's OpenSSL");
  line.text("--etcd-cert", texts.cert, "FILE",
            "With etcds: the certificate (PEM) for an etcd that asks for one");
  line.text("--etcd-key", texts.key, "FILE",
            "Private key (PEM) of that certificate, without a pass phrase");
  line.text("--etcd-user", texts.user, "NAME",
            "Log in to etcd as this user. It needs the right to read and write the keys below "
            "PREFIX");
  line.text("--etcd-password-file", texts.password_file, "FILE",
            "Password of that user. No other user of this machine may have access to the file");
}

std::optional<EtcdPlace> etcd_place(const EtcdTexts& texts, EtcdAccess& access,
                                    std::vector<std::string>& warnings) {
  const Given ca{"--etcd-ca", texts.ca};
  const Given cert{"--etcd-cert", texts.cert};
  const Given key{"--etcd-key", texts.key};
  const Given user{"--etcd-user", texts.user};
  const Given password{"--etcd-password-file", texts.password_file};
  for (const Given& given : {ca, cert, key, user, password}) {
    if (given.value && given.value->empty())
      throw UsageError(fmt::format("{}: its value is missing", given.option));
    if (given.value && !texts.journal)
      throw UsageError(
          fmt::format("{}: only with --journal=etcd://... or etcds://...", given.option));
  }
  if (!texts.journal) return std::nullopt;
  auto place = parse_etcd_place(*texts.journal);
  if (!place)
    throw UsageError(
        fmt::format("--journal={}: {}; must be etcd://HOST:PORT,HOST:PORT,... with /PREFIX or "
                    "without (etcds:// for TLS), or --state-dir=DIR for a journal in a folder",
                    *texts.journal, place.error()));
  for (const Given& given : {ca, cert, key})
    if (given.value && !place->is_encrypted)
      throw UsageError(
          fmt::format("{}: write etcds:// in --journal, in place of etcd://", given.option));
  check_both(cert, key, "FILE");
  check_both(key, cert, "FILE");
  check_both(user, password, "FILE");
  check_both(password, user, "NAME");
  if (place->is_encrypted) take_certificates(texts, access, warnings);
  if (!texts.user) return std::move(*place);
  if (sends_in_clear(*place))
    warnings.push_back(
        "--etcd-user: its password goes to etcd unencrypted, because --journal has etcd://; if "
        "etcd speaks TLS, write etcds://");
  auto read = read_password_file(*texts.password_file);
  if (!read) throw UsageError("--etcd-password-file: " + read.error());
  access.user = *texts.user;
  access.password = std::move(*read);
  return std::move(*place);
}

}  // namespace ddprun::rdzv
