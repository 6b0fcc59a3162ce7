#include "rendezvous/tls/tls_end.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <new>
#include <utility>

#include "proto/error.hpp"
#include "proto/frame.hpp"

namespace ddprun::rdzv {

using proto::Errc;

namespace {

/// The place of what SSL_set_app_data() sets, a macro.
constexpr int kAppData = 0;

// Content types of TLS records (RFC 8446, section 5.1).
constexpr char kAlertRecord = 0x15;
constexpr char kHandshakeRecord = 0x16;
constexpr std::size_t kRecordBytesMax = 16 * 1024;

/// There is one library in a process.
std::atomic<const openssl::Functions*> functions_of_callbacks{nullptr};

int as_int(std::size_t bytes) {
  return static_cast<int>(std::min<std::size_t>(bytes, std::numeric_limits<int>::max()));
}

}  // namespace

TlsEnd::TlsEnd(std::shared_ptr<const openssl::Library> library, SSL_CTX* context)
    : call_(library->call),
      connection_(call_.SSL_new(context)),
      library_(std::move(library)),
      arrived_(call_.BIO_new(call_.BIO_s_mem())),
      to_send_(call_.BIO_new(call_.BIO_s_mem())) {
  functions_of_callbacks = &call_;
  if (connection_ == nullptr || arrived_ == nullptr || to_send_ == nullptr) {
    call_.BIO_free(arrived_);
    call_.BIO_free(to_send_);
    call_.SSL_free(connection_);
    throw std::bad_alloc();
  }
  call_.SSL_set_bio(connection_, arrived_, to_send_);
  call_.SSL_set_ex_data(connection_, kAppData, this);
}

TlsEnd::~TlsEnd() { call_.SSL_free(connection_); }

const openssl::Functions& TlsEnd::functions() { return *functions_of_callbacks.load(); }

TlsEnd& TlsEnd::of(const SSL* connection) {
  return *static_cast<TlsEnd*>(functions().SSL_get_ex_data(connection, kAppData));
}

void TlsEnd::begin_as_client() {
  call_.SSL_set_connect_state(connection_);
  if (!failed_) failed_ = shake_hands();
}

void TlsEnd::begin_as_service() { call_.SSL_set_accept_state(connection_); }

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
    const int taken = call_.BIO_write(arrived_, bytes.data(), as_int(bytes.size()));
    if (taken <= 0) throw std::bad_alloc();
    bytes.remove_prefix(static_cast<std::size_t>(taken));
  }
  first_bytes_.clear();
  if (stage_ == Stage::handshake) failed_ = shake_hands();
  if (stage_ == Stage::open && !failed_) failed_ = read(plain);
  return failed_;
}

ErrorCode TlsEnd::shake_hands() {
  call_.ERR_clear_error();
  const int result = call_.SSL_do_handshake(connection_);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  if (result != 1) {
    if (call_.SSL_get_error(connection_, result) == SSL_ERROR_WANT_READ) return {};
    const ErrorCode failed = failure_of(call_.ERR_peek_error());
    call_.ERR_clear_error();
    return failed;
  }
  if (const ErrorCode unproven = accept_handshake()) return unproven;
  stage_ = Stage::open;
  if (const std::string waiting = std::exchange(waiting_, {}); !waiting.empty()) write(waiting);
  return failed_;
}

ErrorCode TlsEnd::failure_behind_handshake(unsigned long) {
  return make_error_code(Errc::not_authentic);
}

ErrorCode TlsEnd::read(std::string& plain) {
  // On the heap: every thread of the program writes all its thread-local bytes when it starts.
  static thread_local const auto record = std::make_unique_for_overwrite<char[]>(kRecordBytesMax);
  while (true) {
    call_.ERR_clear_error();
    const int count = call_.SSL_read(connection_, record.get(), kRecordBytesMax);
    if (count > 0) {
      has_read_ = true;
      plain.append(record.get(), static_cast<std::size_t>(count));
      continue;
    }
    const int error = call_.SSL_get_error(connection_, count);
    if (error == SSL_ERROR_WANT_READ) return {};
    if (error == SSL_ERROR_ZERO_RETURN) {
      stage_ = Stage::closed;
      return {};
    }
    const ErrorCode failed = has_read_ ? make_error_code(Errc::not_authentic)
                                       : failure_behind_handshake(call_.ERR_peek_error());
    call_.ERR_clear_error();
    return failed;
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
    call_.ERR_clear_error();
    const int count = call_.SSL_write(connection_, plain.data(), as_int(plain.size()));
    if (count <= 0) {
      call_.ERR_clear_error();
      failed_ = make_error_code(Errc::not_authentic);
      return;
    }
    plain.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string TlsEnd::take_output() {
  std::string bytes(call_.BIO_ctrl_pending(to_send_), '\0');
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    const int count = call_.BIO_read(to_send_, bytes.data() + taken, as_int(bytes.size() - taken));
    if (count <= 0) break;
    taken += static_cast<std::size_t>(count);
  }
  bytes.resize(taken);
  return bytes;
}

}  // namespace ddprun::rdzv
