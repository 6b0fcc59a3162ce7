// How ranks exchange gradients. A lost peer is a value that returns to the step loop, never an
// exception.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "trainer/comm/shard_tree.hpp"

namespace ddprun::trainer {

using Clock = std::chrono::steady_clock;

/// Half-open range of floats in a gradient arena.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

enum class CommStatus {
  done,
  aborted,  ///< a peer is gone, gave up on one (its wait timed out), or called abort()
  /// The deadline passed while a peer was still alive; the rest of the group is aborted.
  timed_out,
};

struct [[nodiscard]] CommResult {
  CommStatus status = CommStatus::done;
  int rank = -1;       ///< the peer that is gone or was waited for; -1: not known
  int bucket = -1;     ///< the bucket waited for; -1: not in an all-reduce
  std::string detail;  ///< in words, for the log; names rank, bucket and deadline

  bool ok() const { return status == CommStatus::done; }
};

/// How many sums may be started and not yet finished.
inline constexpr int kStartedMax = 1024;

/// Names one started all-reduce; tickets rise by one for every start().
using Ticket = std::uint64_t;

/// The most bytes of a note, and how many of each rank are kept: a rank can be one sum behind
/// another one, which is within the next.
inline constexpr std::size_t kNoteBytes = 120;
inline constexpr std::uint64_t kNotesKept = 4;

/// One rank's view of the group. Every rank makes the same calls in the same order. One thread at a
/// time calls it (abort() may come from any). After a result that is not done, the only calls left
/// are read_note(), abort() and the destructor.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int world_size() const = 0;
  /// In which order the shards of a rank are to be added up, and so how many arenas it has.
  [[nodiscard]] virtual SumOrder order() const { return SumOrder::tree; }

  /// The gradient arenas of this rank, one for each of its local_nodes() (at least one). They start
  /// zeroed, on 64 bytes, and belong to the communicator because peers read and write them. Slot 0
  /// receives the result. The caller may write a range of them only while no started sum covers it:
  /// between finish() and the next start().
  [[nodiscard]] virtual std::span<float> arena(int slot) = 0;
  /// Bytes of these that no Device has allocated: this rank's, in memory that ranks share.
  [[nodiscard]] virtual std::size_t shared_arena_bytes() const { return 0; }

  /// Announces that `range` of all of this rank's arenas is final for this step, and starts the sum
  /// over all shards. Does not wait. Buckets are started in index
  /// order on every rank, at most kStartedMax are started and not finished.
  virtual Ticket start(int bucket, Range range) = 0;

  /// Does whatever can be done now without waiting. Cheap; called often.
  virtual void progress() = 0;

  /// What this rank computes on its device from now on comes after the sum of this ticket (and all
  /// before it), which then stands in arena(0). In the host's memory the call waits for that, and a
  /// sum that is complete is done, also if the group was aborted since: what a peer does afterwards
  /// takes nothing back. On a GPU it does not wait: that the sums have come, on every rank, is
  /// known once broadcast(), all_gather() or barrier() is done, and until then they may be garbage.
  virtual CommResult finish(Ticket ticket, Clock::time_point deadline) = 0;
  /// Whether the call waits: only then does its time tell how long the sum took beyond backward.
  [[nodiscard]] virtual bool finish_waits() const { return true; }

  virtual CommResult broadcast(std::span<std::byte> bytes, int root,
                               Clock::time_point deadline) = 0;
  /// `all` holds world_size() pieces of the size of `mine`, in rank order.
  virtual CommResult all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                                Clock::time_point deadline) = 0;
  virtual CommResult barrier(Clock::time_point deadline) = 0;

  /// Whether ranks can leave notes, which the others read after a rank has died.
  [[nodiscard]] virtual bool has_notes() const { return false; }
  /// A note of this rank, at most kNoteBytes. `number` is not 0 and rises by one. Every rank that
  /// finds a sum done which was started later finds the notes that stand before it.
  virtual void leave_note(std::uint64_t /*number*/, std::span<const std::byte> /*note*/) {}
  /// Copies what `rank` has left. False: it has left no such note, or more than kNotesKept since.
  [[nodiscard]] virtual bool read_note(int /*rank*/, std::uint64_t /*number*/,
                                       std::span<std::byte> /*note*/) const {
    return false;
  }

  /// Makes every present and later call of every rank return aborted. The destructor waits for no
  /// other rank then: a rank that fails by itself calls this first.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace ddprun::trainer
