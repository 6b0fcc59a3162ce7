// Secrets that only processes of the same user can read, on machines that trust each other. An
// interface, so that nothing here needs a library for it; rendezvous/munge/munge.hpp implements it.
#pragma once

#include <string>

#include <boost/system/result.hpp>

namespace ddprun::proto {

/// Used by one thread at a time.
class Credentials {
 public:
  /// Errors: for people, a part of a sentence: why, and what it depends on.
  using Text = boost::system::result<std::string, std::string>;

  Credentials() = default;
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;
  virtual ~Credentials() = default;

  /// A credential that holds these bytes, and that only this process's user can read.
  /// Printable characters. May block for some seconds, as `decode` may.
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

}  // namespace ddprun::proto
