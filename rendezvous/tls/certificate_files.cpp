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

using openssl::Bio;
using openssl::Certificate;
using openssl::Context;
using openssl::Functions;
using Text = boost::system::result<std::string, std::string>;

/// The authorities of a whole system have about 250 KiB.
constexpr std::size_t kFileBytesMax = 4 * 1024 * 1024;
constexpr int kAddChainCertificate = 14;  // of openssl/ssl.h
constexpr unsigned long kVersion3 = 0x30000000;
constexpr unsigned long kPemLibrary = 9;     // of openssl/err.h
constexpr unsigned long kNoStartLine = 108;  // of openssl/pemerr.h
constexpr unsigned long kPartialChain = 0x80000;
constexpr unsigned int kNoPartialWildcards = 4;

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

using BioHolder = std::unique_ptr<Bio, int (*)(Bio*)>;
using CertificateHolder = std::unique_ptr<Certificate, void (*)(Certificate*)>;

BioHolder memory_with(const Functions& call, const std::string& text) {
  BioHolder memory(call.bio_new(call.memory()), call.bio_free);
  if (!memory) throw std::bad_alloc();
  if (!text.empty()) call.bio_write(memory.get(), text.data(), static_cast<int>(text.size()));
  return memory;
}

/// Without one, OpenSSL would ask at the terminal.
int no_pass_phrase(char*, int, int, void* was_asked) {
  if (was_asked != nullptr) *static_cast<bool*>(was_asked) = true;
  return -1;
}

/// Whether a PEM reader gave `error` because it found no further "-----BEGIN CERTIFICATE-----".
bool is_no_start_line(const Functions& call, unsigned long error) {
  const unsigned int library_at = call.version_num() >= kVersion3 ? 23 : 24;
  return ((error >> library_at) & 0xffU) == kPemLibrary && (error & 0xfffU) == kNoStartLine;
}

/// Hands on each certificate, until `take` or a damaged one gives a reason to stop. Returns it;
/// empty: all were taken.
std::string read_certificates(const Functions& call, const PemFile& file, const std::string& text,
                              const std::function<std::string(CertificateHolder)>& take) {
  const BioHolder memory = memory_with(call, text);
  for (int number = 1;; ++number) {
    call.clear_errors();
    CertificateHolder next(call.read_certificate(memory.get(), nullptr, no_pass_phrase, nullptr),
                           call.certificate_free);
    const unsigned long error = next ? 0 : call.peek_error();
    std::string why;
    if (next) {
      why = take(std::move(next));
    } else if (!is_no_start_line(call, error)) {
      why = about(file, fmt::format("certificate {} in it cannot be read ({}): copy the file again",
                                    number, error_text(call, error)));
    } else if (number == 1) {
      why = about(file, kNotPem);
    } else {
      call.clear_errors();
      return "";
    }
    if (!why.empty()) return why;
  }
}

std::string trust(const Functions& call, Context* context, const CertificateSettings& settings,
                  const std::string& text) {
  const PemFile& file = settings.authorities;
  if (file.path.empty()) {
    if (settings.trusts_system) call.context_trust_system(context);
    return "";
  }
  return read_certificates(call, file, text, [&](const CertificateHolder& certificate) {
    return call.store_add(call.context_store(context), certificate.get()) == 1
               ? std::string()
               : about(file, error_text(call, call.peek_error()));
  });
}

/// Empty: it is used.
std::string use_own(const Functions& call, Context* context, const PemFile& file,
                    Certificate* own) {
  if (const std::string why = why_not_now(call, own); !why.empty())
    return about(file, fmt::format("the certificate ({}) {}: renew it, or set this machine's clock",
                                   subject_of(call, own), why));
  if (call.context_use_certificate(context, own) == 1) return "";
  return about(file, fmt::format("OpenSSL does not accept the certificate ({}): {}",
                                 subject_of(call, own), error_text(call, call.peek_error())));
}

/// The first one is of this side, those behind it lead to its authority.
std::string use_chain(const Functions& call, Context* context, const PemFile& file,
                      const std::string& text) {
  bool has_own = false;
  return read_certificates(call, file, text, [&](CertificateHolder certificate) -> std::string {
    if (!std::exchange(has_own, true)) return use_own(call, context, file, certificate.get());
    if (call.context_ctrl(context, kAddChainCertificate, 0, certificate.get()) != 1)
      return about(file, error_text(call, call.peek_error()));
    static_cast<void>(certificate.release());  // the context has it
    return "";
  });
}

std::string use_key(const Functions& call, Context* context, const CertificateSettings& settings,
                    const std::string& text) {
  const BioHolder memory = memory_with(call, text);
  call.clear_errors();
  bool has_pass_phrase = false;
  const std::unique_ptr<openssl::Key, void (*)(openssl::Key*)> key(
      call.read_key(memory.get(), nullptr, no_pass_phrase, &has_pass_phrase), call.key_free);
  if (has_pass_phrase)
    return about(settings.key,
                 "the key has a pass phrase, and nobody is asked for it; write it without one: "
                 "openssl pkey -in FILE -out NEW");
  if (!key)
    return about(settings.key, "it has no private key in PEM (-----BEGIN PRIVATE KEY-----)");
  if (call.context_use_key(context, key.get()) == 1 && call.context_check_key(context) == 1)
    return "";
  call.clear_errors();
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

std::string use_certificates(const Functions& call, Context* context,
                             const CertificateSettings& settings, const PemTexts& texts) {
  openssl::VerifySettings* const verify_settings = call.context_verify_settings(context);
  // What is in the file is trusted, though it may not be the root.
  call.verify_set_flags(verify_settings, kPartialChain);
  call.verify_set_host_flags(verify_settings, kNoPartialWildcards);
  if (std::string why = trust(call, context, settings, texts.authorities); !why.empty()) return why;
  if (settings.certificate.path.empty()) return "";
  std::string why = use_chain(call, context, settings.certificate, texts.certificate);
  return why.empty() ? use_key(call, context, settings, texts.key) : why;
}

}  // namespace ddprun::rdzv
