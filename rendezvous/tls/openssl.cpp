#include "rendezvous/tls/openssl.hpp"

#include <dlfcn.h>

#include <utility>

#include <fmt/format.h>

namespace ddprun::rdzv::openssl {
namespace {

using Opened = boost::system::result<std::shared_ptr<const Library>, std::string>;

constexpr unsigned long kOldestVersion = 0x10101000;  // 1.1.1, the first with TLS 1.3
/// A process that ends by _exit() or in a fork cleans up nothing.
constexpr std::uint64_t kNoAtExit = 0x00080000;

Opened failed(std::string why) { return {boost::system::in_place_error, std::move(why)}; }

class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <typename Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  /// The first one.
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

void find_certificates(Symbols& symbols, Functions& call) {
  symbols.find("PEM_read_bio_X509", call.read_certificate);
  symbols.find("X509_free", call.certificate_free);
  symbols.find("PEM_read_bio_PrivateKey", call.read_key);
  symbols.find("EVP_PKEY_free", call.key_free);
  symbols.find("X509_STORE_add_cert", call.store_add);
  symbols.find("X509_VERIFY_PARAM_set_flags", call.verify_set_flags);
  symbols.find("X509_VERIFY_PARAM_set_hostflags", call.verify_set_host_flags);
  symbols.find("X509_VERIFY_PARAM_set1_host", call.verify_set_host);
  symbols.find("X509_VERIFY_PARAM_set1_ip_asc", call.verify_set_ip);
  symbols.find("SSL_get_ex_data_X509_STORE_CTX_idx", call.verification_data_index);
  symbols.find("X509_STORE_CTX_get_ex_data", call.verification_data);
  symbols.find("X509_STORE_CTX_get_error", call.verification_error);
  symbols.find("X509_STORE_CTX_get_current_cert", call.verification_certificate);
  symbols.find("X509_verify_cert_error_string", call.verify_error_text);
  symbols.find("X509_get0_notBefore", call.not_before);
  symbols.find("X509_get0_notAfter", call.not_after);
  symbols.find("X509_cmp_current_time", call.compare_with_now);
  symbols.find("ASN1_TIME_print", call.print_time);
  symbols.find("X509_get_subject_name", call.subject);
  symbols.find("X509_get_issuer_name", call.issuer);
  symbols.find("X509_NAME_print_ex", call.print_name);
  symbols.find("X509_get_ext_by_NID", call.find_extension);
  symbols.find("X509_get_ext", call.extension);
  symbols.find("X509V3_EXT_print", call.print_extension);
}

/// Those of libcrypto are found, too: libssl depends on it.
std::string find_all(void* library, Functions& call) {
  Symbols symbols(library);
  symbols.find("OpenSSL_version_num", call.version_num);
  symbols.find("OpenSSL_version", call.version);
  symbols.find("OPENSSL_init_ssl", call.init);
  symbols.find("ERR_peek_error", call.peek_error);
  symbols.find("ERR_clear_error", call.clear_errors);
  symbols.find("ERR_reason_error_string", call.error_reason);
  symbols.find("TLS_client_method", call.client_method);
  symbols.find("TLS_server_method", call.server_method);
  symbols.find("SSL_CTX_new", call.context_new);
  symbols.find("SSL_CTX_free", call.context_free);
  symbols.find("SSL_CTX_ctrl", call.context_ctrl);
  symbols.find("SSL_CTX_set_ciphersuites", call.context_set_ciphersuites);
  symbols.find("SSL_CTX_set_num_tickets", call.context_set_num_tickets);
  symbols.find("SSL_CTX_set_verify", call.context_set_verify);
  symbols.find("SSL_CTX_get0_param", call.context_verify_settings);
  symbols.find("SSL_CTX_get_cert_store", call.context_store);
  symbols.find("SSL_CTX_set_default_verify_paths", call.context_trust_system);
  symbols.find("SSL_CTX_use_certificate", call.context_use_certificate);
  symbols.find("SSL_CTX_use_PrivateKey", call.context_use_key);
  symbols.find("SSL_CTX_check_private_key", call.context_check_key);
  symbols.find("SSL_CTX_set_psk_use_session_callback", call.context_set_use_session);
  symbols.find("SSL_CTX_set_psk_find_session_callback", call.context_set_find_session);
  symbols.find("SSL_new", call.connection_new);
  symbols.find("SSL_free", call.connection_free);
  symbols.find("SSL_set_bio", call.set_bio);
  symbols.find("SSL_set_ex_data", call.set_ex_data);
  symbols.find("SSL_get_ex_data", call.get_ex_data);
  symbols.find("SSL_set_connect_state", call.set_connect_state);
  symbols.find("SSL_set_accept_state", call.set_accept_state);
  symbols.find("SSL_do_handshake", call.do_handshake);
  symbols.find("SSL_read", call.read);
  symbols.find("SSL_write", call.write);
  symbols.find("SSL_get_error", call.get_error);
  symbols.find("SSL_session_reused", call.session_reused);
  symbols.find("SSL_ctrl", call.connection_ctrl);
  symbols.find("SSL_get0_param", call.connection_verify_settings);
  symbols.find("SSL_get_verify_result", call.verify_result);
  symbols.find("SSL_CIPHER_find", call.cipher_find);
  symbols.find("SSL_SESSION_new", call.session_new);
  symbols.find("SSL_SESSION_free", call.session_free);
  symbols.find("SSL_SESSION_set1_master_key", call.session_set_master_key);
  symbols.find("SSL_SESSION_set_cipher", call.session_set_cipher);
  symbols.find("SSL_SESSION_set_protocol_version", call.session_set_protocol_version);
  symbols.find("BIO_s_mem", call.memory);
  symbols.find("BIO_new", call.bio_new);
  symbols.find("BIO_free", call.bio_free);
  symbols.find("BIO_write", call.bio_write);
  symbols.find("BIO_read", call.bio_read);
  symbols.find("BIO_ctrl_pending", call.bio_pending);
  find_certificates(symbols, call);
  return symbols.missing();
}

}  // namespace

Opened open_library(const char* name) {
  // Never closed: OpenSSL keeps data of each thread, which it frees when the thread ends.
  void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return failed(dlerror());
  auto library = std::make_shared<Library>();
  if (const std::string missing = find_all(handle, library->call); !missing.empty())
    return failed(fmt::format("{} has no {}; OpenSSL 1.1.1 or 3 is needed", name, missing));
  library->version = library->call.version(0);
  if (library->call.version_num() < kOldestVersion)
    return failed(fmt::format("{} is {}; 1.1.1 or 3 is needed", name, library->version));
  if (library->call.init(kNoAtExit, nullptr) != 1)
    return failed(
        fmt::format("{} ({}) could not be initialized: its settings file (openssl.cnf) "
                    "may be broken",
                    name, library->version));
  return std::shared_ptr<const Library>(std::move(library));
}

Opened open_library() {
  std::string reasons;
  for (const char* name : kLibraryNames) {
    auto opened = open_library(name);
    if (opened) return opened;
    reasons += (reasons.empty() ? "" : "; ") + opened.error();
  }
  return failed(
      fmt::format("OpenSSL 1.1.1 or 3 cannot be used ({}); install it (Debian and Ubuntu: libssl3, "
                  "libssl3t64 or "
                  "libssl1.1; RHEL and Rocky: openssl-libs)",
                  reasons));
}

}  // namespace ddprun::rdzv::openssl
