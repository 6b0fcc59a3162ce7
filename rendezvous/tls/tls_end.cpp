#include "rendezvous/tls/tls_end.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <new>
#include <utility>

#include <sodium.h>

#include "proto/error.hpp"
#include "proto/frame.hpp"

namespace ddprun::rdzv {

using openssl::Bio;
using openssl::Connection;
using openssl::Session;
using proto::Errc;

namespace {

// Of openssl/ssl.h.
constexpr int kErrorWantRead = 2;
constexpr int kErrorClosed = 6;
constexpr int kAppData = 0;
constexpr unsigned long kReasonMask = 0xfff;
constexpr unsigned long kAlertReceived = 1000;  // and the alert's number
// What a service answers a wrong binder with (RFC 8446, section 4.2.11).
constexpr unsigned long kIllegalParameter = 47;
constexpr unsigned long kDecryptError = 51;

// Content types of TLS records (RFC 8446, section 5.1).
constexpr char kAlertRecord = 0x15;
constexpr char kHandshakeRecord = 0x16;

constexpr std::array<unsigned char, 2> kAes128GcmSha256{0x13, 0x01};
/// In front of the run id, because an identity has at least one byte.
constexpr std::string_view kIdentity = "ddprun ";
/// A run id is shorter.
constexpr std::size_t kIdentityBytesMax = 1024;
constexpr std::size_t kRecordBytesMax = 16 * 1024;

/// For OpenSSL's callbacks, which have nothing but the connection. There is one library in a
/// process.
std::atomic<const openssl::Functions*> functions_of_callbacks{nullptr};

int as_int(std::size_t bytes) {
  return static_cast<int>(std::min<std::size_t>(bytes, std::numeric_limits<int>::max()));
}

/// One that no peer can have.
proto::SessionKey random_key() {
  proto::SessionKey key{};
  randombytes_buf(key.data(), key.size());
  return key;
}

}  // namespace

void TlsEnd::prepare_client(const openssl::Library& library, openssl::Context* context) {
  functions_of_callbacks = &library.call;
  library.call.context_set_use_session(context, &TlsEnd::use_session);
}

void TlsEnd::prepare_service(const openssl::Library& library, openssl::Context* context) {
  functions_of_callbacks = &library.call;
  library.call.context_set_find_session(context, &TlsEnd::find_session);
}

TlsEnd::TlsEnd(std::shared_ptr<const openssl::Library> library, openssl::Context* context)
    : library_(std::move(library)),
      call_(library_->call),
      connection_(call_.connection_new(context)),
      arrived_(call_.bio_new(call_.memory())),
      to_send_(call_.bio_new(call_.memory())) {
  if (connection_ == nullptr || arrived_ == nullptr || to_send_ == nullptr) {
    call_.bio_free(arrived_);
    call_.bio_free(to_send_);
    call_.connection_free(connection_);
    throw std::bad_alloc();
  }
  call_.set_bio(connection_, arrived_, to_send_);
  call_.set_ex_data(connection_, kAppData, this);
}

TlsEnd::TlsEnd(std::shared_ptr<const openssl::Library> library, openssl::Context* context,
               const std::string& secret, const std::string& run_id)
    : TlsEnd(std::move(library), context) {
  secret_ = secret;
  run_id_ = run_id;
  identity_ = std::string(kIdentity) + run_id;
  call_.set_connect_state(connection_);
  failed_ = shake_hands();
}

TlsEnd::TlsEnd(std::shared_ptr<const openssl::Library> library, openssl::Context* context,
               proto::SecretFor secret_for)
    : TlsEnd(std::move(library), context) {
  secret_for_ = std::move(secret_for);
  call_.set_accept_state(connection_);
}

TlsEnd::~TlsEnd() { call_.connection_free(connection_); }

// ---- the key ----

TlsEnd& TlsEnd::of(const Connection* connection) {
  return *static_cast<TlsEnd*>(functions_of_callbacks.load()->get_ex_data(connection, kAppData));
}

int TlsEnd::use_session(Connection* connection, const openssl::Digest*,
                        const unsigned char** identity, std::size_t* identity_bytes,
                        Session** session) {
  // Both cipher suites that a context has are of the key's digest.
  const TlsEnd& end = of(connection);
  *identity = reinterpret_cast<const unsigned char*>(end.identity_.data());
  *identity_bytes = end.identity_.size();
  *session = end.session_with(end.secret_);
  return 1;
}

int TlsEnd::find_session(Connection* connection, const unsigned char* identity,
                         std::size_t identity_bytes, Session** session) {
  TlsEnd& end = of(connection);
  *session = nullptr;
  const std::string_view given(reinterpret_cast<const char*>(identity), identity_bytes);
  if (!given.starts_with(kIdentity) || given.size() > kIdentityBytesMax) return 1;
  end.key_was_asked_for_ = true;
  try {
    end.run_id_ = given.substr(kIdentity.size());
    *session = end.session_with(end.secret_for_(end.run_id_));
  } catch (...) {
    end.thrown_ = std::current_exception();
  }
  return end.thrown_ ? 0 : 1;
}

/// A peer is not to learn from the answer for which run ids there are secrets.
Session* TlsEnd::session_with(const std::string& secret) const {
  proto::SessionKey key = secret.empty() ? random_key() : proto::encryption_key(secret);
  Session* const session = call_.session_new();
  if (session == nullptr) return nullptr;
  const openssl::Cipher* const cipher = call_.cipher_find(connection_, kAes128GcmSha256.data());
  const bool is_complete = cipher != nullptr &&
                           call_.session_set_master_key(session, key.data(), key.size()) == 1 &&
                           call_.session_set_cipher(session, cipher) == 1 &&
                           call_.session_set_protocol_version(session, kTls13) == 1;
  sodium_memzero(key.data(), key.size());
  if (is_complete) return session;
  call_.session_free(session);
  return nullptr;
}

// ---- bytes ----

/// OpenSSL's own words for a peer that does not speak TLS tell nobody what to do. False: more bytes
/// are needed, or the end has failed.
bool TlsEnd::take_first_bytes(std::string_view bytes) {
  first_bytes_ += bytes;
  is_tls_ = first_bytes_.front() == kAlertRecord || first_bytes_.front() == kHandshakeRecord;
  if (is_tls_) return true;
  const auto opening = proto::opening_of(first_bytes_);
  if (opening)
    failed_ =
        make_error_code(opening == proto::Opening::control ? Errc::not_encrypted : Errc::malformed);
  return false;
}

ErrorCode TlsEnd::decrypt(std::string_view bytes, std::string& plain) {
  // What follows its last word would only take memory.
  if (failed_ || bytes.empty() || stage_ == Stage::closed) return failed_;
  if (!is_tls_) {
    if (!take_first_bytes(bytes)) return failed_;
    bytes = first_bytes_;
  }
  while (!bytes.empty()) {
    const int taken = call_.bio_write(arrived_, bytes.data(), as_int(bytes.size()));
    if (taken <= 0) throw std::bad_alloc();
    bytes.remove_prefix(static_cast<std::size_t>(taken));
  }
  first_bytes_.clear();
  if (stage_ == Stage::handshake) failed_ = shake_hands();
  if (stage_ == Stage::open && !failed_) failed_ = read(plain);
  return failed_;
}

ErrorCode TlsEnd::shake_hands() {
  call_.clear_errors();
  const int result = call_.do_handshake(connection_);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  if (result != 1) {
    if (call_.get_error(connection_, result) == kErrorWantRead) return {};
    const unsigned long reason = call_.peek_error() & kReasonMask;
    call_.clear_errors();
    // Any other failure is that of another program.
    const bool is_refused =
        reason == kAlertReceived + kIllegalParameter || reason == kAlertReceived + kDecryptError;
    return make_error_code(is_refused || key_was_asked_for_ ? Errc::not_authentic
                                                            : Errc::malformed);
  }
  if (call_.session_reused(connection_) != 1) return make_error_code(Errc::malformed);
  stage_ = Stage::open;
  sodium_memzero(secret_.data(), secret_.size());
  secret_.clear();
  if (const std::string waiting = std::exchange(waiting_, {}); !waiting.empty()) write(waiting);
  return failed_;
}

ErrorCode TlsEnd::read(std::string& plain) {
  // On the heap: every thread of the program writes all its thread-local bytes when it starts.
  static thread_local const auto record = std::make_unique_for_overwrite<char[]>(kRecordBytesMax);
  while (true) {
    call_.clear_errors();
    const int count = call_.read(connection_, record.get(), kRecordBytesMax);
    if (count > 0) {
      plain.append(record.get(), static_cast<std::size_t>(count));
      continue;
    }
    const int error = call_.get_error(connection_, count);
    if (error == kErrorWantRead) return {};
    if (error == kErrorClosed) {
      stage_ = Stage::closed;
      return {};
    }
    call_.clear_errors();
    return make_error_code(Errc::not_authentic);
  }
}

void TlsEnd::encrypt(std::string_view plain) {
  if (failed_) return;
  if (stage_ == Stage::handshake) {
    waiting_ += plain;
  } else {
    write(plain);
  }
}

void TlsEnd::write(std::string_view plain) {
  while (!plain.empty() && !failed_) {
    call_.clear_errors();
    const int count = call_.write(connection_, plain.data(), as_int(plain.size()));
    if (count <= 0) {
      call_.clear_errors();
      failed_ = make_error_code(Errc::not_authentic);
      return;
    }
    plain.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string TlsEnd::take_output() {
  std::string bytes(call_.bio_pending(to_send_), '\0');
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    const int count = call_.bio_read(to_send_, bytes.data() + taken, as_int(bytes.size() - taken));
    if (count <= 0) break;
    taken += static_cast<std::size_t>(count);
  }
  bytes.resize(taken);
  return bytes;
}

}  // namespace ddprun::rdzv
