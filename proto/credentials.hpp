// Secrets that only processes of the same user can read, on machines that trust each other. An
// interface, so that nothing here needs a library for it; rendezvous/munge/munge.hpp implements it.
#pragma once

#include <string>

#include <boost/system/result.hpp>

namespace ddprun::proto {

/// Why a credential could not be made or read.
struct CredentialFailure {
  std::string reason;     ///< for people, a part of a sentence; it names what it depends on
  bool may_pass = false;  ///< another attempt may succeed
};

/// Thread-safe.
class Credentials {
 public:
  using Text = boost::system::result<std::string, CredentialFailure>;

  Credentials() = default;
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;
  virtual ~Credentials() = default;

  /// A credential that holds these bytes, and that only this process's user can read.
  /// Printable characters. May block for as long as its implementation tells, as `decode` may.
  virtual Text encode(const std::string& payload) = 0;
  /// The bytes in a credential of this process's user; those of other users are errors. Its age
  /// does not count.
  virtual Text decode(const std::string& credential) = 0;
};

/// What a rendezvous puts into its credential; no other credential of the same user can be taken
/// for it.
std::string credential_payload(const std::string& secret);
/// The secret in it; empty: it is of something else.
std::string secret_of_payload(const std::string& payload);
/// For a service that is to have one: random bytes.
std::string new_secret();

struct ShownSecret {
  std::string secret;
  std::string credential;  ///< it holds the secret
};
/// A new secret, in a credential that this process was able to read: where the daemon takes this
/// process's user for another one, none of the clients could read it.
boost::system::result<ShownSecret, CredentialFailure> new_shown_secret(Credentials& credentials);

}  // namespace ddprun::proto
