// OpenSSL's libssl, opened at run time: its functions that TLS with a pre-shared key or with
// certificates needs. Their types are those of the headers that it is compiled with, 1.1.1 or
// newer. 1.1.1 and 3 have all of them, with the same types but for `const`.
#pragma once

#include <memory>
#include <string>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <boost/system/result.hpp>

namespace ddprun::rdzv::openssl {

// Only functions: the headers make many other names macros of SSL_ctrl() and SSL_CTX_ctrl().
// clang-format off
#define DDPRUN_OPENSSL_FUNCTIONS(F) \
  F(OpenSSL_version_num) F(OpenSSL_version) F(OPENSSL_init_ssl) F(ERR_peek_error) \
  F(ERR_clear_error) F(ERR_reason_error_string) F(TLS_client_method) F(TLS_server_method) \
  F(SSL_CTX_new) F(SSL_CTX_free) F(SSL_CTX_ctrl) F(SSL_CTX_set_ciphersuites) \
  F(SSL_CTX_set_num_tickets) F(SSL_CTX_set_verify) F(SSL_CTX_get0_param) \
  F(SSL_CTX_get_cert_store) F(SSL_CTX_set_default_verify_paths) F(SSL_CTX_use_certificate) \
  F(SSL_CTX_use_PrivateKey) F(SSL_CTX_check_private_key) F(SSL_CTX_set_psk_use_session_callback) \
  F(SSL_CTX_set_psk_find_session_callback) F(SSL_new) F(SSL_free) F(SSL_set_bio) \
  F(SSL_set_ex_data) F(SSL_get_ex_data) F(SSL_set_connect_state) F(SSL_set_accept_state) \
  F(SSL_do_handshake) F(SSL_read) F(SSL_write) F(SSL_get_error) F(SSL_session_reused) \
  F(SSL_ctrl) F(SSL_get0_param) F(SSL_get_verify_result) F(SSL_CIPHER_find) F(SSL_SESSION_new) \
  F(SSL_SESSION_free) F(SSL_SESSION_set1_master_key) F(SSL_SESSION_set_cipher) \
  F(SSL_SESSION_set_protocol_version) F(BIO_s_mem) F(BIO_new) F(BIO_free) F(BIO_write) \
  F(BIO_read) F(BIO_ctrl_pending) F(PEM_read_bio_X509) F(X509_free) F(PEM_read_bio_PrivateKey) \
  F(EVP_PKEY_free) F(X509_STORE_add_cert) F(X509_VERIFY_PARAM_set_flags) \
  F(X509_VERIFY_PARAM_set_hostflags) F(X509_VERIFY_PARAM_set1_host) \
  F(X509_VERIFY_PARAM_set1_ip_asc) F(SSL_get_ex_data_X509_STORE_CTX_idx) \
  F(X509_STORE_CTX_get_ex_data) F(X509_STORE_CTX_get_error) F(X509_STORE_CTX_get_current_cert) \
  F(X509_verify_cert_error_string) F(X509_get0_notBefore) F(X509_get0_notAfter) \
  F(X509_cmp_current_time) F(ASN1_TIME_print) F(X509_get_subject_name) F(X509_get_issuer_name) \
  F(X509_NAME_print_ex) F(X509_get_ext_by_NID) F(X509_get_ext) F(X509V3_EXT_print)
// clang-format on

/// call.SSL_new(context) is what a linked program writes as SSL_new(context).
struct Functions {
#define DDPRUN_MEMBER(name) decltype(&::name) name = nullptr;
  DDPRUN_OPENSSL_FUNCTIONS(DDPRUN_MEMBER)
#undef DDPRUN_MEMBER
};

struct Library {
  Functions call;
  std::string version;  ///< such as "OpenSSL 3.0.17 1 Jul 2025"
};

/// What dlopen is asked for, in this order.
inline constexpr const char* kLibraryNames[] = {"libssl.so.3", "libssl.so.1.1"};

/// It stays open until the process ends. Errors: a whole sentence, with the remedy.
boost::system::result<std::shared_ptr<const Library>, std::string> open_library();
/// One file, by what dlopen takes. Errors: why, for people.
boost::system::result<std::shared_ptr<const Library>, std::string> open_library(const char* name);

}  // namespace ddprun::rdzv::openssl
