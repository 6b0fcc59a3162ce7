// What a connection to the rendezvous service lacks that it must have.
#pragma once

#include <cstdint>

namespace ddprun::rdzv {

enum class Lack : std::uint8_t {
  nothing,
  proof,       ///< of the secret: it has another one, or none
  encryption,  ///< the service encrypts its connections
};

}  // namespace ddprun::rdzv
