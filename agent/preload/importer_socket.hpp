// The socket to the importing process and to its workers: packets with descriptors one way, packets
// of known senders the other.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::agent {

struct Ends {
  UniqueFd ours;
  UniqueFd theirs;
};

/// Packets, so that an answer is never a part of one. Ours never waits, and knows who sends.
Result<Ends> make_ends();

/// A file in memory with these contents.
Result<UniqueFd> memory_file(std::string_view contents);

/// At most 6 descriptors.
ErrorCode send_packet(int socket, std::string_view text, const std::vector<int>& descriptors = {});

struct Received {
  bool would_wait = false;
  std::string packet;  ///< empty: the other end is gone
  pid_t sender = -1;
};
Received receive_packet(int socket);

}  // namespace ddprun::agent
