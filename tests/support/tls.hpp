// TLS as ddprun has it, for tests that need it.
#pragma once

#include <memory>

#include "rendezvous/tls/tls.hpp"
#include "tests/support/skip.hpp"

namespace ddprun::test {

/// Skips the test case where OpenSSL cannot be opened.
inline std::shared_ptr<const proto::Encrypter> tls() {
  auto opened = rdzv::open_tls();
  if (!opened) skip(opened.error());
  return *opened;
}

}  // namespace ddprun::test
