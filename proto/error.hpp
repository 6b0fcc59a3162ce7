// Errors that more than one folder can meet: broken bytes, limits, deadlines.
#pragma once

#include <boost/system/error_code.hpp>

namespace ddprun::proto {

enum class Errc {
  malformed = 1,     ///< the bytes are not what the protocol allows here
  too_large,         ///< a length or count is over its limit
  timed_out,         ///< the deadline of the call passed
  peer_closed,       ///< the other side closed the connection
  version_mismatch,  ///< no protocol version in common
  /// The server does not answer PING: it speaks the c10d dialect of PyTorch before 2.5.
  old_dialect,
  not_a_number,    ///< ADD on a value that is not a decimal number
  unknown_kind,    ///< a control message of a kind that this program does not know
  not_authentic,   ///< a frame's tag or a proof is wrong: another secret, or changed bytes
  secret_missing,  ///< the service asks for a proof and there is no secret here
  proof_missing,   ///< a proof is required here and the service has no secret
  not_encrypted,   ///< the other side of a control connection does not encrypt it
  /// One side of a control connection does not accept the other's certificate.
  certificate_refused,
};

const boost::system::error_category& error_category() noexcept;

inline boost::system::error_code make_error_code(Errc code) noexcept {
  return {static_cast<int>(code), error_category()};
}

}  // namespace ddprun::proto

template <>
struct boost::system::is_error_code_enum<ddprun::proto::Errc> : std::true_type {};
