#include "proto/credentials.hpp"

#include <string_view>

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

}  // namespace ddprun::proto
