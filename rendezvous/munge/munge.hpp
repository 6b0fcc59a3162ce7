// MUNGE's credentials (https://dun.github.io/munge): encrypted with a key that a cluster's machines
// share and only the daemon munged can read, which tells the user that made one. Its library is
// opened at run time.
#pragma once

#include <memory>
#include <string>

#include "proto/credentials.hpp"

namespace ddprun::rdzv {

/// Nothing is opened before the first credential. `socket`: where munged listens; empty: where its
/// library looks.
std::unique_ptr<proto::Credentials> munge_credentials(std::string socket);

}  // namespace ddprun::rdzv
