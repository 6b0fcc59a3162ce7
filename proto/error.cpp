#include "proto/error.hpp"

namespace ddprun::proto {
namespace {

class Category final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "ddprun.proto"; }

  std::string message(int code) const override {
    switch (static_cast<Errc>(code)) {
      case Errc::malformed:
        return "bytes that the protocol does not allow here";
      case Errc::too_large:
        return "a length or count over its limit";
      case Errc::timed_out:
        return "the deadline passed";
      case Errc::peer_closed:
        return "the other side closed the connection";
      case Errc::version_mismatch:
        return "no protocol version in common";
      case Errc::old_dialect:
        return "the server does not answer PING (a store of PyTorch before 2.5, or not a store)";
      case Errc::not_a_number:
        return "the value under this key is not a decimal number";
      case Errc::unknown_kind:
        return "a message of a kind that this program does not know";
      case Errc::not_authentic:
        return "not from a peer that has the secret";
      case Errc::secret_missing:
        return "the rendezvous asks for a secret";
      case Errc::proof_missing:
        return "the rendezvous has no secret";
      case Errc::not_encrypted:
        return "the connection is not encrypted";
      case Errc::certificate_refused:
        return "a certificate is not accepted";
    }
    return "unknown error";
  }
};

}  // namespace

const boost::system::error_category& error_category() noexcept {
  static const Category category;
  return category;
}

}  // namespace ddprun::proto
