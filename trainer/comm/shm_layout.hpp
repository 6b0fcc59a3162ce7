// What lies where in the memory that a rank shares with the others, the protocol that its words
// follow, and the memory itself.
//
// Every rank owns one segment and maps all of them. There are no locks. All control words are
// sequentially consistent atomics and only ever rise, so a rank that is killed anywhere leaves
// nothing held: the others see that a word does not rise any more, and which rank's turn it was.
//
// A sum. Tickets number the sums from 1, the same on every rank. A sum is cut into chunks.
//   1. A rank with arenas final in the ticket's range stores the ticket in `started` (which
//      says so for all tickets up to it, since they are started in order).
//   2. Once `started` >= ticket on every rank, any rank may claim a chunk by raising its word from
//      an older ticket to (ticket, claimer, claimed). While backward runs, a rank claims those of
//      its own share; while it waits anyway, those that are not claimed yet.
//   3. The claimer reads the chunk of all local nodes of all ranks in tree order, writes the sum to
//      slot 0 of every rank, and stores (ticket, claimer, done).
//   4. The sum stands everywhere when the words of all its chunks say done.
//
// Why a rank may write to its arenas again once it has seen 4 for all its tickets (finish() of the
// last one): another rank touches them only between claiming and finishing a chunk of some ticket
// t. For t up to the last one every chunk is claimed at most once and is done. A chunk of a later
// ticket can be claimed only after `started` of this very rank has reached it, which happens in its
// own next start(). Equally, a word of ticket t can be raised to t + kStartedMax (the words are a
// ring) only after every rank has started that one, which start() allows only when t is done: so
// a rank that still waits for t never meets a newer ticket before its predecessor is done.
//
// Collectives (barrier, broadcast, all_gather) go in rounds, numbered alike. A rank's staging
// memory has two halves, used in turn: round c overwrites what round c - 2 left, so it waits until
// `consumed` >= c - 2 on every rank.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "trainer/comm/communicator.hpp"

namespace ddprun::trainer {

using Word64 = std::atomic<std::uint64_t>;
using Word32 = std::atomic<std::uint32_t>;
static_assert(Word64::is_always_lock_free && Word32::is_always_lock_free,
              "shared words work between processes");
static_assert(sizeof(Word32) == 4, "a futex is four bytes");

inline constexpr std::uint64_t kShmMagic =
    0x6464'7072'756e'0002;  // the last digits: version of this layout
inline constexpr int kShmRanksMax = 256;
inline constexpr std::size_t kStagingHalfBytes = 256u << 10;
inline constexpr std::size_t kReasonBytes = 256;
inline constexpr std::size_t kCpuMaskWords = 16;  // 1024 processors

/// What a rank leaves for the others: Communicator::leave_note().
struct NoteSlot {
  Word64 number;  // 0: nothing, or it is being written
  std::byte bytes[kNoteBytes];
};

/// The start of every segment.
struct RankBlock {
  // Written before the segment is announced, then only read.
  std::uint64_t magic;
  std::uint64_t nonce;
  std::uint64_t rank;
  std::uint64_t cpu_mask[kCpuMaskWords];  // where this rank may run

  alignas(64) Word64 started;  // last ticket with a range final in all arenas of this rank
  // Last round of a collective that this rank has entered, with its staging filled.
  alignas(64) Word64 posted;
  alignas(64) Word64 consumed;  // last round of which this rank needs the staging no more
  alignas(64) Word32 doorbell;  // futex; rises when a rank rings
  Word32 asleep;                // 1 while this rank may be in futex wait: ring it after a change
  alignas(64) Word32 left;      // 1: this rank has destroyed its communicator
  alignas(64) NoteSlot notes[kNotesKept];  // by number modulo kNotesKept

  // Used in rank 0's block only: one abort for all.
  alignas(64) Word64 abort_word;  // 0, or an AbortRecord; the first one stays
  Word32 reason_written;          // 1 when `reason` may be read
  char reason[kReasonBytes];      // NUL-terminated
};
inline constexpr std::size_t kRankBlockBytes = 4096;
static_assert(sizeof(RankBlock) <= kRankBlockBytes);

/// Why the group is aborted: fits one word, so that it is there whole or not at all.
struct AbortRecord {
  int by = 0;       ///< rank that reported it
  int rank = -1;    ///< rank that is gone; -1: abort() was called
  int bucket = -1;  ///< bucket waited for; -1: not in an all-reduce

  [[nodiscard]] std::uint64_t pack() const {
    return 1 | std::uint64_t(by) << 1 | std::uint64_t(rank + 1) << 16 |
           std::uint64_t(bucket + 1) << 32;
  }
  static AbortRecord unpack(std::uint64_t word) {
    return {int(word >> 1 & 0x7fff), int(word >> 16 & 0xffff) - 1, int(word >> 32) - 1};
  }
};

/// State of one chunk of one sum.
struct ChunkWord {
  std::uint64_t ticket = 0;
  int rank = 0;  ///< that claimed it
  bool done = false;

  [[nodiscard]] std::uint64_t pack() const {
    return ticket << 16 | std::uint64_t(rank) << 1 | std::uint64_t(done);
  }
  static ChunkWord unpack(std::uint64_t word) {
    return {word >> 16, int(word >> 1 & 0x7fff), (word & 1) != 0};
  }
};

/// At most so many chunks a rank's share is cut into: fine enough to share out late work, coarse
/// enough to cost nothing.
inline constexpr int kChunksPerRank = 8;

/// How a sum over `range` is cut. Chunk c belongs to the share of rank c * world_size / count.
struct Chunks {
  Range range;
  int count = 0;

  Chunks() = default;
  Chunks(Range whole, int world_size);
  /// Floats of the arena, cut on cache lines.
  [[nodiscard]] Range chunk(int index) const;
};

/// Offsets in a segment, in bytes.
struct SegmentLayout {
  /// Rank 0 only: kStartedMax rows of world_size * kChunksPerRank words.
  std::size_t chunk_words = 0;
  std::size_t staging = 0;  ///< two halves
  std::size_t arenas = 0;   ///< one after another, each a whole number of pages
  std::size_t arena_stride = 0;
  int slots = 0;
  std::size_t bytes = 0;

  SegmentLayout(int rank, int world_size, int shards, std::size_t arena_floats);
};

/// A mapping of a whole memfd. Move-only; unmaps and closes.
class SharedSegment {
 public:
  SharedSegment() = default;
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  ~SharedSegment();

  /// A new segment of `bytes` zeroes.
  static Result<SharedSegment> create(std::size_t bytes);

  /// The segment behind descriptor `fd` of process `pid`. An error of the system, or no_such_device
  /// when what is there has another inode or size, so that it is not the segment that was
  /// announced.
  static Result<SharedSegment> open(pid_t pid, int fd, std::size_t bytes, std::uint64_t inode);

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// The descriptor, while it is open; others need it until they have mapped the segment.
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint64_t inode() const { return inode_; }
  void close_fd() { fd_.reset(); }

 private:
  static Result<SharedSegment> map(UniqueFd fd, std::size_t bytes);

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t inode_ = 0;
};

}  // namespace ddprun::trainer
