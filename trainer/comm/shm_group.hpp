// Brings the ranks of one host together: each announces its segment in the exchange and maps those
// of the others.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "trainer/comm/exchange.hpp"
#include "trainer/comm/make_communicator.hpp"
#include "trainer/comm/process_watch.hpp"
#include "trainer/comm/shm_layout.hpp"

namespace ddprun::trainer {

/// What a rank announces: where its memory is, enough to be sure that it is that memory, and what
/// it was started with.
struct Announcement {
  ProcessIdentity process;
  int fd = -1;
  std::size_t bytes = 0;
  std::uint64_t inode = 0;
  std::uint64_t nonce = 0;
  int world_size = 0;
  int shards = 0;
  std::size_t arena_floats = 0;

  [[nodiscard]] std::string text() const;
  /// Nothing when the text is not an announcement. Pure.
  static std::optional<Announcement> parse(const std::string& text);
};

/// One rank's memory, as mapped by this process.
struct Member {
  SharedSegment segment;
  ProcessWatch watch;  // not used for this rank itself
  RankBlock* block = nullptr;
  std::byte* staging = nullptr;
  std::vector<float*> arenas;
};

struct ShmGroup {
  std::vector<Member> members;  // by rank
  Word64* chunk_words = nullptr;
  /// There are more ranks than processors: spinning would keep a peer from running.
  bool crowded = false;
};

struct GroupSetup {
  ShmGroup group;
  CommResult result;
  bool refused = false;
};

/// Creates this rank's segment and maps all others. The descriptors are still open: others may not
/// have mapped yet.
GroupSetup join_group(const CommOptions& options, Exchange& exchange, Clock::time_point deadline);

}  // namespace ddprun::trainer
