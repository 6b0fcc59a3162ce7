#include "rendezvous/tls/certificate_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/open_file.hpp"
#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "rendezvous/tls/certificate_text.hpp"

namespace ddprun::rdzv {
namespace {

using openssl::Functions;
using Text = boost::system::result<std::string, std::string>;

/// The authorities of a whole system have about 250 KiB.
constexpr std::size_t kFileBytesMax = 4 * 1024 * 1024;
constexpr unsigned long kVersion3 = 0x30000000;

constexpr const char* kNotPem =
    "it has no certificate in PEM (-----BEGIN CERTIFICATE-----); openssl x509 -in FILE -inform DER "
    "makes it of one in DER";

std::string about(const PemFile& file, const std::string& why) {
  return fmt::format("{}={}: {}", file.option, file.path, why);
}

Text failed(std::string why) { return {boost::system::in_place_error, std::move(why)}; }

/// Never waits for a writer.
Text read_pem(const PemFile& file, mode_t* mode = nullptr) {
  if (file.path.empty()) return Text(boost::system::in_place_value);
  const Result<UniqueFd> opened = open_named_file(file.path, O_RDONLY);
  if (opened.has_error() && opened.error() == FileErrc::not_regular)
    return failed(about(file, "it is not a regular file"));
  struct stat status {};
  const ErrorCode unreadable =
      opened.has_error() ? opened.error()
                         : (fstat(opened->get(), &status) == 0 ? ErrorCode() : last_system_error());
  if (unreadable) return failed(about(file, "cannot read it: " + unreadable.message()));
  const UniqueFd& fd = *opened;
  if (mode != nullptr) *mode = status.st_mode;
  std::string text(kFileBytesMax + 1, '\0');
  std::size_t length = 0;
  while (length < text.size()) {
    const ssize_t count = read(fd.get(), text.data() + length, text.size() - length);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed(about(file, "cannot read it: " + last_system_error().message()));
    if (count == 0) break;
    length += static_cast<std::size_t>(count);
  }
  if (length > kFileBytesMax)
    return failed(about(file, fmt::format("it has more than {} MiB", kFileBytesMax >> 20U)));
  text.resize(length);
  text.shrink_to_fit();
  return {boost::system::in_place_value, std::move(text)};
}

using BioHolder = std::unique_ptr<BIO, int (*)(BIO*)>;
using CertificateHolder = std::unique_ptr<X509, void (*)(X509*)>;

BioHolder memory_with(const Functions& call, const std::string& text) {
  BioHolder memory(call.BIO_new(call.BIO_s_mem()), call.BIO_free);
  if (!memory) throw std::bad_alloc();
  if (!text.empty()) call.BIO_write(memory.get(), text.data(), static_cast<int>(text.size()));
  return memory;
}

/// Without one, OpenSSL would ask at the terminal.
int no_pass_phrase(char*, int, int, void* was_asked) {
  if (was_asked != nullptr) *static_cast<bool*>(was_asked) = true;
  return -1;
}

/// Whether a PEM reader gave `error` because it found no further "-----BEGIN CERTIFICATE-----".
bool is_no_start_line(const Functions& call, unsigned long error) {
  const unsigned int library_at = call.OpenSSL_version_num() >= kVersion3 ? 23 : 24;
  return ((error >> library_at) & 0xffU) == ERR_LIB_PEM && (error & 0xfffU) == PEM_R_NO_START_LINE;
}

/// Hands on each certificate, until `take` or a damaged one gives a reason to stop. Returns it;
/// empty: all were taken.
std::string read_certificates(const Functions& call, const PemFile& file, const std::string& text,
                              const std::function<std::string(CertificateHolder)>& take) {
  const BioHolder memory = memory_with(call, text);
  for (int number = 1;; ++number) {
    call.ERR_clear_error();
    CertificateHolder next(call.PEM_read_bio_X509(memory.get(), nullptr, no_pass_phrase, nullptr),
                           call.X509_free);
    const unsigned long error = next ? 0 : call.ERR_peek_error();
    std::string why;
    if (next) {
      why = take(std::move(next));
    } else if (!is_no_start_line(call, error)) {
      why = about(file, fmt::format("certificate {} in it cannot be read ({}): copy the file again",
                                    number, error_text(call, error)));
    } else if (number == 1) {
      why = about(file, kNotPem);
    } else {
      call.ERR_clear_error();
      return "";
    }
    if (!why.empty()) return why;
  }
}

std::string trust(const Functions& call, SSL_CTX* context, const CertificateSettings& settings,
                  const std::string& text) {
  const PemFile& file = settings.authorities;
  if (file.path.empty()) {
    if (settings.trusts_system) call.SSL_CTX_set_default_verify_paths(context);
    return "";
  }
  return read_certificates(call, file, text, [&](const CertificateHolder& certificate) {
    return call.X509_STORE_add_cert(call.SSL_CTX_get_cert_store(context), certificate.get()) == 1
               ? std::string()
               : about(file, error_text(call, call.ERR_peek_error()));
  });
}

/// Empty: it is used.
std::string use_own(const Functions& call, SSL_CTX* context, const PemFile& file, X509* own) {
  if (const std::string why = why_not_now(call, own); !why.empty())
    return about(file, fmt::format("the certificate ({}) {}: renew it, or set this machine's clock",
                                   subject_of(call, own), why));
  if (call.SSL_CTX_use_certificate(context, own) == 1) return "";
  return about(file, fmt::format("OpenSSL does not accept the certificate ({}): {}",
                                 subject_of(call, own), error_text(call, call.ERR_peek_error())));
}

/// The first one is of this side, those behind it lead to its authority.
std::string use_chain(const Functions& call, SSL_CTX* context, const PemFile& file,
                      const std::string& text) {
  bool has_own = false;
  return read_certificates(call, file, text, [&](CertificateHolder certificate) -> std::string {
    if (!std::exchange(has_own, true)) return use_own(call, context, file, certificate.get());
    if (call.SSL_CTX_ctrl(context, SSL_CTRL_EXTRA_CHAIN_CERT, 0, certificate.get()) != 1)
      return about(file, error_text(call, call.ERR_peek_error()));
    static_cast<void>(certificate.release());  // the context has it
    return "";
  });
}

std::string use_key(const Functions& call, SSL_CTX* context, const CertificateSettings& settings,
                    const std::string& text) {
  const BioHolder memory = memory_with(call, text);
  call.ERR_clear_error();
  bool has_pass_phrase = false;
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      call.PEM_read_bio_PrivateKey(memory.get(), nullptr, no_pass_phrase, &has_pass_phrase),
      call.EVP_PKEY_free);
  if (has_pass_phrase)
    return about(settings.key,
                 "the key has a pass phrase, and nobody is asked for it; write it without one: "
                 "openssl pkey -in FILE -out NEW");
  if (!key)
    return about(settings.key, "it has no private key in PEM (-----BEGIN PRIVATE KEY-----)");
  if (call.SSL_CTX_use_PrivateKey(context, key.get()) == 1 &&
      call.SSL_CTX_check_private_key(context) == 1)
    return "";
  call.ERR_clear_error();
  return about(settings.key,
               fmt::format("it is not the key of the certificate {}", settings.certificate.path));
}

}  // namespace

boost::system::result<PemTexts, std::string> read_pem_files(const CertificateSettings& settings) {
  using Read = boost::system::result<PemTexts, std::string>;
  PemTexts texts;
  mode_t key_mode = 0;
  for (auto [file, text, mode] :
       {std::tuple{&settings.authorities, &texts.authorities, static_cast<mode_t*>(nullptr)},
        std::tuple{&settings.certificate, &texts.certificate, static_cast<mode_t*>(nullptr)},
        std::tuple{&settings.key, &texts.key, &key_mode}}) {
    auto read = read_pem(*file, mode);
    if (!read) return {boost::system::in_place_error, read.error()};
    *text = std::move(*read);
  }
  // A group may be there for it, as Debian's ssl-cert is.
  if ((key_mode & (S_IRWXO | S_IWGRP)) != 0)
    texts.warning = about(settings.key,
                          fmt::format("it has mode {:04o}, so other users have access to the key: "
                                      "run chmod 600 {}",
                                      key_mode & 07777, settings.key.path));
  return Read(boost::system::in_place_value, std::move(texts));
}

std::string use_certificates(const Functions& call, SSL_CTX* context,
                             const CertificateSettings& settings, const PemTexts& texts) {
  X509_VERIFY_PARAM* const verify_settings = call.SSL_CTX_get0_param(context);
  // What is in the file is trusted, though it may not be the root.
  call.X509_VERIFY_PARAM_set_flags(verify_settings, X509_V_FLAG_PARTIAL_CHAIN);
  call.X509_VERIFY_PARAM_set_hostflags(verify_settings, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (std::string why = trust(call, context, settings, texts.authorities); !why.empty()) return why;
  if (settings.certificate.path.empty()) return "";
  std::string why = use_chain(call, context, settings.certificate, texts.certificate);
  return why.empty() ? use_key(call, context, settings, texts.key) : why;
}

}  // namespace ddprun::rdzv
