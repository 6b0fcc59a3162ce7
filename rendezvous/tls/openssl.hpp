// OpenSSL's libssl, opened at run time: its functions that TLS with a pre-shared key or with
// certificates needs. The prototypes are those of 1.1.1, which 3.x still has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <boost/system/result.hpp>

namespace ddprun::rdzv::openssl {

// What OpenSSL alone looks into.
struct Method;
struct Context;
struct Connection;
struct Session;
struct Cipher;
struct Digest;
struct Bio;
struct BioMethod;
struct Certificate;
struct Key;
struct Name;
struct Extension;
struct Time;
struct Store;
struct Verification;
struct VerifySettings;

/// A client's callback before its first bytes: gives the session with its key. Returns 1.
using UseSession = int (*)(Connection*, const Digest*, const unsigned char** identity,
                           std::size_t* identity_bytes, Session**);
/// A server's callback: gives the session that an identity stands for. Returns 1.
using FindSession = int (*)(Connection*, const unsigned char* identity, std::size_t identity_bytes,
                            Session**);
/// Called for each certificate of the other end. Returns whether to go on.
using Verify = int (*)(int is_right, Verification*);
/// Writes a pass phrase. Returns its length; below 0: there is none.
using PassPhrase = int (*)(char* phrase, int bytes_max, int writes, void* data);

struct Functions {
  unsigned long (*version_num)();
  const char* (*version)(int what);
  int (*init)(std::uint64_t options, const void* settings);
  unsigned long (*peek_error)();
  void (*clear_errors)();
  const char* (*error_reason)(unsigned long error);  ///< null: it has none

  const Method* (*client_method)();
  const Method* (*server_method)();
  Context* (*context_new)(const Method*);
  void (*context_free)(Context*);
  long (*context_ctrl)(Context*, int command, long value, void* pointer);
  int (*context_set_ciphersuites)(Context*, const char* names);
  int (*context_set_num_tickets)(Context*, std::size_t count);
  void (*context_set_verify)(Context*, int mode, Verify);
  VerifySettings* (*context_verify_settings)(Context*);
  Store* (*context_store)(const Context*);
  int (*context_trust_system)(Context*);
  int (*context_use_certificate)(Context*, Certificate*);
  int (*context_use_key)(Context*, Key*);
  int (*context_check_key)(const Context*);
  void (*context_set_use_session)(Context*, UseSession);
  void (*context_set_find_session)(Context*, FindSession);

  Connection* (*connection_new)(Context*);
  void (*connection_free)(Connection*);
  void (*set_bio)(Connection*, Bio* read, Bio* write);  ///< which it owns from then on
  int (*set_ex_data)(Connection*, int index, void* data);
  void* (*get_ex_data)(const Connection*, int index);
  void (*set_connect_state)(Connection*);
  void (*set_accept_state)(Connection*);
  int (*do_handshake)(Connection*);
  int (*read)(Connection*, void* bytes, int count);
  int (*write)(Connection*, const void* bytes, int count);
  int (*get_error)(const Connection*, int result);
  int (*session_reused)(const Connection*);
  long (*connection_ctrl)(Connection*, int command, long value, void* pointer);
  VerifySettings* (*connection_verify_settings)(Connection*);
  long (*verify_result)(const Connection*);

  const Cipher* (*cipher_find)(Connection*, const unsigned char* two_bytes);
  Session* (*session_new)();
  void (*session_free)(Session*);
  int (*session_set_master_key)(Session*, const unsigned char* key, std::size_t bytes);
  int (*session_set_cipher)(Session*, const Cipher*);
  int (*session_set_protocol_version)(Session*, int version);

  const BioMethod* (*memory)();
  Bio* (*bio_new)(const BioMethod*);
  int (*bio_free)(Bio*);
  int (*bio_write)(Bio*, const void* bytes, int count);
  int (*bio_read)(Bio*, void* bytes, int count);
  std::size_t (*bio_pending)(Bio*);

  Certificate* (*read_certificate)(Bio*, Certificate**, PassPhrase, void* data);
  void (*certificate_free)(Certificate*);
  Key* (*read_key)(Bio*, Key**, PassPhrase, void* data);
  void (*key_free)(Key*);
  int (*store_add)(Store*, Certificate*);
  int (*verify_set_flags)(VerifySettings*, unsigned long flags);
  void (*verify_set_host_flags)(VerifySettings*, unsigned int flags);
  int (*verify_set_host)(VerifySettings*, const char* name, std::size_t bytes);
  int (*verify_set_ip)(VerifySettings*, const char* addr);

  int (*verification_data_index)();
  void* (*verification_data)(const Verification*, int index);
  int (*verification_error)(const Verification*);
  Certificate* (*verification_certificate)(const Verification*);
  const char* (*verify_error_text)(long error);

  const Time* (*not_before)(const Certificate*);
  const Time* (*not_after)(const Certificate*);
  int (*compare_with_now)(const Time*);  ///< below 0: it has passed; 0: not a time
  int (*print_time)(Bio*, const Time*);
  const Name* (*subject)(const Certificate*);
  const Name* (*issuer)(const Certificate*);
  int (*print_name)(Bio*, const Name*, int indent, unsigned long flags);
  int (*find_extension)(const Certificate*, int kind, int after);
  Extension* (*extension)(const Certificate*, int place);
  int (*print_extension)(Bio*, Extension*, unsigned long flags, int indent);
};

struct Library {
  Functions call{};
  std::string version;  ///< such as "OpenSSL 3.0.17 1 Jul 2025"
};

/// What dlopen is asked for, in this order.
inline constexpr const char* kLibraryNames[] = {"libssl.so.3", "libssl.so.1.1"};

/// It stays open until the process ends. Errors: a whole sentence, with the remedy.
boost::system::result<std::shared_ptr<const Library>, std::string> open_library();
/// One file, by what dlopen takes. Errors: why, for people.
boost::system::result<std::shared_ptr<const Library>, std::string> open_library(const char* name);

}  // namespace ddprun::rdzv::openssl
