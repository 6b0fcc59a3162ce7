// MUNGE's credentials (https://dun.github.io/munge): encrypted with a key that a cluster's machines
// share and only the daemon munged can read, which tells the user that made one. Its library is
// opened at run time.
#pragma once

#include <memory>
#include <string>

#include "proto/credentials.hpp"
#include "rendezvous/munge/munge_library.hpp"

namespace ddprun::rdzv {

/// Nothing is opened before the first credential. `socket`: where munged listens; empty: where its
/// library looks. `call`: null functions are those of the library.
///
/// Each call waits for munged. While it starts, or has too many clients, libmunge tries to connect
/// for 2.3 s; where it does not answer at all, for 10 s (five times 2 s, which no option changes).
std::unique_ptr<proto::Credentials> munge_credentials(std::string socket,
                                                      const MungeFunctions& call = {});

}  // namespace ddprun::rdzv
