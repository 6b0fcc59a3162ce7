#include "proto/credentials.hpp"

#include <string_view>
#include <utility>

#include <sodium.h>

namespace ddprun::proto {
namespace {

constexpr std::string_view kBegin = "ddprun secret 1 ";

}  // namespace

std::string credential_payload(const std::string& secret) { return std::string(kBegin) + secret; }

std::string secret_of_payload(const std::string& payload) {
  return payload.starts_with(kBegin) ? payload.substr(kBegin.size()) : std::string();
}

std::string new_secret() {
  std::string secret(crypto_auth_hmacsha256_KEYBYTES, '\0');
  randombytes_buf(secret.data(), secret.size());
  return secret;
}

boost::system::result<ShownSecret, CredentialFailure> new_shown_secret(Credentials& credentials) {
  using Made = boost::system::result<ShownSecret, CredentialFailure>;
  const auto failed = [](CredentialFailure failure) {
    return Made(boost::system::in_place_error, std::move(failure));
  };
  std::string secret = new_secret();
  const std::string payload = credential_payload(secret);
  auto credential = credentials.encode(payload);
  if (!credential) return failed(credential.error());
  const auto read = credentials.decode(*credential);
  if (!read || *read != payload)
    return failed({"this node cannot read its own credential (" +
                       (read ? "it holds something else" : read.error().reason) +
                       "); in a user namespace, as of a rootless container, MUNGE sees another "
                       "user than this process does",
                   !read && read.error().may_pass});
  return Made(boost::system::in_place_value,
              ShownSecret{std::move(secret), std::move(*credential)});
}

}  // namespace ddprun::proto
